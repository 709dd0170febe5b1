from django.urls import URLPattern, URLResolver, path

from apps.planner import views

app_name = "planner"

urlpatterns: list[URLPattern | URLResolver] = [
    path("plans", views.plan_list, name="plan_list"),
    path("plans/new", views.plan_create, name="plan_create"),
    path("plans/compile", views.alternatives_compile, name="alternatives_compile"),
    path("plans/<uuid:pk>", views.plan_detail, name="plan_detail"),
    path("plans/<uuid:pk>/plan.json", views.plan_json, name="plan_json"),
]
