"""Addresses of the billing room."""

from django.urls import URLPattern, URLResolver, path

from apps.billing import exporting, views
from apps.billing.budgets import views as budgets
from apps.billing.customers import views as customers
from apps.billing.portal import closing
from apps.billing.portal import views as portal
from apps.billing.portal.ledger import ledger
from apps.billing.stripe import pages as stripe
from apps.billing.stripe.views import webhook
from apps.billing.webhooks import views as webhooks

app_name = "billing"

urlpatterns: list[URLPattern | URLResolver] = [
    path("stripe/webhook", webhook, name="stripe_webhook"),
    path("stripe", stripe.overview, name="stripe_overview"),
    path("stripe/events/<str:pk>", stripe.event_detail, name="stripe_event"),
    path("portal", portal.portal, name="portal"),
    path("portal/payment-methods", stripe.payment_methods, name="payment_methods"),
    path("portal/usage", portal.usage, name="usage"),
    path("portal/caps", portal.caps, name="cap_list"),
    path("settings/organisation/delete", closing.delete, name="organisation_delete"),
    path("portal/settings", views.settings, name="settings"),
    path("portal/ledger", ledger, name="ledger"),
    path("portal/focus.csv", exporting.focus_file, name="focus_file"),
    path("portal/focus.parquet", exporting.focus_file, {"kind": "parquet"}, name="focus_parquet"),
    path("portal/budgets", budgets.budget_list, name="budget_list"),
    path("portal/budgets/<uuid:pk>/delete", budgets.budget_delete, name="budget_delete"),
    path("portal/webhooks", webhooks.endpoint_list, name="webhook_list"),
    path("portal/webhooks/<uuid:pk>", webhooks.endpoint_detail, name="webhook_detail"),
    path("outbox", webhooks.outbox, name="outbox"),
    path("invoices", views.invoice_list, name="invoice_list"),
    path("invoices/issue", views.invoice_create, name="invoice_create"),
    path("invoices/draft", views.invoice_draft_page, name="invoice_draft"),
    path("invoices/<uuid:pk>", views.invoice_detail, name="invoice_detail"),
    path("invoices/<uuid:pk>/invoice.<str:kind>", views.invoice_file, name="invoice_file"),
    path("credit-notes/<uuid:pk>/credit-note.<str:kind>", views.credit_note_file, name="credit_note_file"),
    path("payments", views.payments, name="payments"),
    path("customers", customers.customer_list, name="customer_list"),
    path("customers/<uuid:pk>", customers.customer, name="customer"),
    path("customers/invoices/<uuid:pk>", customers.customer_invoice, name="customer_invoice"),
]
