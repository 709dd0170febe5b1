from django.urls import URLPattern, URLResolver, path

from apps.planner import hosting_views, task_views, views
from apps.planner.models import OwnMachine, PlaceMeasurement, PriceListFile

app_name = "planner"

urlpatterns: list[URLPattern | URLResolver] = [
    path("plans", views.plan_list, name="plan_list"),
    path("plans/new", views.plan_create, name="plan_create"),
    path("plans/compile", views.alternatives_compile, name="alternatives_compile"),
    path("plans/<uuid:pk>", views.plan_detail, name="plan_detail"),
    path("plans/<uuid:pk>/plan.json", views.plan_json, name="plan_json"),
    path("tasks", task_views.task_list, name="task_list"),
    path("tasks/new", task_views.task_create, name="task_create"),
    path("tasks/sample", task_views.task_sample, name="task_sample"),
    path("tasks/<uuid:pk>", task_views.task_detail, name="task_detail"),
    path("tasks/<uuid:pk>/compile", task_views.task_compile, name="task_compile"),
    path("tasks/<uuid:pk>/evaluate", task_views.task_evaluate, name="task_evaluate"),
    path("tasks/<uuid:pk>/cancel", task_views.task_cancel, name="task_cancel"),
    path("tasks/<uuid:pk>/delete", task_views.task_delete, name="task_delete"),
    path("tasks/<uuid:pk>/plan", task_views.task_plan, name="task_plan"),
    path("data-sets/<uuid:pk>/file", task_views.data_set_file, name="data_set_file"),
    path("data-sets/<uuid:pk>/delete", task_views.data_set_delete, name="data_set_delete"),
    path("plans/<uuid:pk>/places", hosting_views.plan_places, name="plan_places"),
    path("plans/<uuid:pk>/places.<str:kind>", hosting_views.plan_places_file, name="plan_places_file"),
    path("places", hosting_views.places, name="places"),
    path("places/sample.csv", hosting_views.sample_csv, name="places_sample"),
    path("places/measurements", hosting_views.measurement_import, name="measurement_import"),
    path("places/measurements/<uuid:pk>", hosting_views.measurement_detail, name="measurement_detail"),
    path(
        "places/measurements/<uuid:pk>/remove",
        hosting_views.place_remove,
        {"kind": PlaceMeasurement},
        name="measurement_remove",
    ),
    path("places/price-lists", hosting_views.pricelist_import, name="pricelist_import"),
    path("places/price-lists/<uuid:pk>", hosting_views.pricelist_detail, name="pricelist_detail"),
    path(
        "places/price-lists/<uuid:pk>/remove",
        hosting_views.place_remove,
        {"kind": PriceListFile},
        name="pricelist_remove",
    ),
    path("places/machines", hosting_views.machine_add, name="machine_add"),
    path("places/machines/<uuid:pk>/remove", hosting_views.place_remove, {"kind": OwnMachine}, name="machine_remove"),
]
