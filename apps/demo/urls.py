"""The URLs of the demo."""

from django.urls import URLPattern, URLResolver, path

from apps.demo import views

app_name = "demo"

urlpatterns: list[URLPattern | URLResolver] = [
    path("demo/visit", views.visit, name="visit"),
    path("demo/leave", views.leave, name="leave"),
]
