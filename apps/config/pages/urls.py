"""Addresses of the pages that belong to no single room; they have no namespace."""

from django.urls import URLPattern, URLResolver, path

from apps.config.pages import views

urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.home, name="home"),
    path("docs", views.documents, name="docs"),
    path("docs/<path:name>", views.document, name="doc"),
]
