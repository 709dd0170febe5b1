from django.urls import URLPattern, URLResolver, path

from apps.reports import (
    book_pages,
    capacity_plan_pages,
    cost_pages,
    reconciliation_pages,
    rerating_pages,
    revenue_pages,
    views,
)

app_name = "reports"

urlpatterns: list[URLPattern | URLResolver] = [
    path("capacity", views.capacity, name="capacity"),
    path("capacity/plan", capacity_plan_pages.plan_list, name="capacity_plan_list"),
    path("capacity/plan/<uuid:pk>", capacity_plan_pages.plan_detail, name="capacity_plan"),
    path("capacity/plan/<uuid:pk>/cancel", capacity_plan_pages.plan_cancel, name="capacity_plan_cancel"),
    path("revenue", revenue_pages.revenue_page, name="revenue"),
    path("revenue/ratings", rerating_pages.rerating_new, name="rerating_new"),
    path("revenue/ratings/<uuid:pk>", rerating_pages.rerating_detail, name="rerating"),
    path("costs", cost_pages.cost_list, name="cost_list"),
    path("prices/new", book_pages.book_new, name="book_new"),
    path("reconciliations", reconciliation_pages.run_list, name="reconciliation_list"),
    path("reconciliations/<uuid:pk>", reconciliation_pages.run_detail, name="reconciliation"),
    path("reconciliations/<uuid:pk>/<uuid:organisation>", reconciliation_pages.run_rows, name="reconciliation_rows"),
]
