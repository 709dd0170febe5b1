"""URLs of invoicing."""

from django.urls import URLPattern, URLResolver, path

from apps.invoicing import exporting, views

app_name = "invoicing"

urlpatterns: list[URLPattern | URLResolver] = [
    path("portal/settings", views.settings, name="settings"),
    path("portal/focus.csv", exporting.focus_file, name="focus_file"),
    path("portal/focus.parquet", exporting.focus_file, {"kind": "parquet"}, name="focus_parquet"),
    path("invoices", views.invoice_list, name="invoice_list"),
    path("invoices/issue", views.invoice_create, name="invoice_create"),
    path("invoices/draft", views.invoice_draft_page, name="invoice_draft"),
    path("invoices/<uuid:pk>", views.invoice_detail, name="invoice_detail"),
    path("invoices/<uuid:pk>/invoice.<str:kind>", views.invoice_file, name="invoice_file"),
    path("credit-notes/<uuid:pk>/credit-note.<str:kind>", views.credit_note_file, name="credit_note_file"),
    path("payments", views.payments, name="payments"),
]
