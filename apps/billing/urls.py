"""Addresses of the billing room."""

from django.urls import URLPattern, URLResolver, path

from apps.billing import exporting, views

app_name = "billing"

urlpatterns: list[URLPattern | URLResolver] = [
    path("portal", views.portal, name="portal"),
    path("portal/settings", views.settings, name="settings"),
    path("portal/ledger", views.ledger, name="ledger"),
    path("portal/focus.csv", exporting.focus_file, name="focus_file"),
    path("invoices", views.invoice_list, name="invoice_list"),
    path("invoices/issue", views.invoice_create, name="invoice_create"),
    path("invoices/draft", views.invoice_draft_page, name="invoice_draft"),
    path("invoices/<uuid:pk>", views.invoice_detail, name="invoice_detail"),
    path("invoices/<uuid:pk>/invoice.<str:kind>", views.invoice_file, name="invoice_file"),
    path("payments", views.payments, name="payments"),
]
