"""URLs of the portal."""

from django.urls import URLPattern, URLResolver, path

from apps.portal import closing, usage_views, views
from apps.portal.customers import views as customers
from apps.portal.ledger import ledger

app_name = "portal"

urlpatterns: list[URLPattern | URLResolver] = [
    path("portal", views.portal, name="portal"),
    path("portal/usage", usage_views.usage, name="usage"),
    path("portal/contracts", views.contracts, name="contracts"),
    path("portal/credits", views.credits_page, name="credits"),
    path("portal/caps", views.caps, name="cap_list"),
    path("portal/ledger", ledger, name="ledger"),
    path("settings/organisation/delete", closing.delete, name="organisation_delete"),
    path("customers", customers.customer_list, name="customer_list"),
    path("customers/<uuid:pk>", customers.customer, name="customer"),
    path("customers/invoices/<uuid:pk>", customers.customer_invoice, name="customer_invoice"),
]
