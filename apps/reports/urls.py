from django.urls import URLPattern, URLResolver, path

from apps.reports import (
    book_pages,
    capacity_plan_pages,
    controller_pages,
    cost_pages,
    failure_pages,
    forecast_pages,
    proposal_pages,
    reconciliation_pages,
    rerating_pages,
    revenue_pages,
    sheet_pages,
    views,
    whatif_pages,
)

app_name = "reports"

urlpatterns: list[URLPattern | URLResolver] = [
    path("capacity", views.capacity, name="capacity"),
    path("capacity/plan", capacity_plan_pages.plan_list, name="capacity_plan_list"),
    path("capacity/plan/<uuid:pk>", capacity_plan_pages.plan_detail, name="capacity_plan"),
    path("capacity/plan/<uuid:pk>/cancel", capacity_plan_pages.plan_cancel, name="capacity_plan_cancel"),
    path("capacity/plan/<uuid:pk>/<slug:pool>/<slug:kind>", proposal_pages.plan_fleet, name="capacity_plan_fleet"),
    path("capacity/controller", controller_pages.controller, name="controller"),
    path("capacity/controller/pools/<slug:slug>", controller_pages.controller_pool, name="controller_pool"),
    path("capacity/controller/<uuid:pk>", controller_pages.proposal, name="controller_proposal"),
    path("capacity/controller/<uuid:pk>/dismiss", controller_pages.proposal_end, name="controller_dismiss"),
    path("capacity/what-if/<uuid:pk>/fleet", proposal_pages.what_if_fleet, name="what_if_fleet"),
    path("capacity/forecast", forecast_pages.forecast_page, name="forecast"),
    path("capacity/forecast.csv", forecast_pages.forecast_csv, name="forecast_csv"),
    path("capacity/traces", whatif_pages.trace_page, name="trace"),
    path("capacity/what-if", whatif_pages.what_if_page, name="what_if"),
    path("capacity/what-if/<uuid:pk>", whatif_pages.what_if_detail, name="what_if_detail"),
    path("capacity/what-if/<uuid:pk>/cancel", whatif_pages.what_if_cancelled, name="what_if_cancel"),
    path("reports", sheet_pages.report_list, name="report_list"),
    path("reports/<slug:slug>", sheet_pages.report_page, name="report"),
    path("fleet/devices/<uuid:pk>/failure", failure_pages.failure, name="failure"),
    path("revenue", revenue_pages.revenue_page, name="revenue"),
    path("revenue/ratings", rerating_pages.rerating_new, name="rerating_new"),
    path("revenue/ratings/<uuid:pk>", rerating_pages.rerating_detail, name="rerating"),
    path("costs", cost_pages.cost_list, name="cost_list"),
    path("prices/new", book_pages.book_new, name="book_new"),
    path("reconciliations", reconciliation_pages.run_list, name="reconciliation_list"),
    path("reconciliations/<uuid:pk>", reconciliation_pages.run_detail, name="reconciliation"),
    path("reconciliations/<uuid:pk>/<uuid:organisation>", reconciliation_pages.run_rows, name="reconciliation_rows"),
]
