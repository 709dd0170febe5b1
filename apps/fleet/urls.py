from django.urls import URLPattern, URLResolver, path

from apps.fleet import views

app_name = "fleet"

urlpatterns: list[URLPattern | URLResolver] = [
    path("targets", views.target_list, name="target_list"),
    path("targets/<slug:name>", views.target_detail, name="target_detail"),
    path("targets/<slug:name>/file", views.target_file, name="target_file"),
    path("fleet", views.fleet, name="fleet"),
]
