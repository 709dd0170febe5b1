from django.urls import URLPattern, URLResolver, path

from apps.reports import revenue_pages, views

app_name = "reports"

urlpatterns: list[URLPattern | URLResolver] = [
    path("capacity", views.capacity, name="capacity"),
    path("revenue", revenue_pages.revenue_page, name="revenue"),
]
