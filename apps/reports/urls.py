from django.urls import URLPattern, URLResolver, path

from apps.reports import views

app_name = "reports"

urlpatterns: list[URLPattern | URLResolver] = [
    path("capacity", views.capacity, name="capacity"),
]
