"""URLs of the pages that belong to no single app."""

from django.urls import URLPattern, URLResolver, path

from apps.pages import views
from apps.pages.report import views as report

urlpatterns: list[URLPattern | URLResolver] = [
    path("", views.home, name="home"),
    path("search", views.search, name="search"),
    path("search/options", views.search_palette, name="search_palette"),
    path("filters", views.filter_save, name="filter_save"),
    path("filters/<uuid:pk>/delete", views.filter_delete, name="filter_delete"),
    path("programs/compare", report.program_compare, name="program_compare"),
    path("programs/<uuid:pk>", report.program, name="program"),
    path("programs/<uuid:pk>/timeline", report.program_timeline, name="program_timeline"),
    path("programs/<uuid:pk>/graph", report.program_graph, name="program_graph"),
    path("programs/<uuid:pk>/download/<str:kind>", report.program_download, name="program_download"),
    path("problems/<slug:code>", views.problem_type, name="problem_type"),
    path("docs", views.documents, name="docs"),
    path("docs/<path:name>", views.document, name="doc"),
]
