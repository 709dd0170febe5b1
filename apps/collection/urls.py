"""The URLs of the collection app."""

from django.urls import URLPattern, URLResolver, path

from apps.collection import pages
from apps.collection.views import webhook

app_name = "collection"

urlpatterns: list[URLPattern | URLResolver] = [
    path("stripe/webhook", webhook, name="stripe_webhook"),
    path("stripe", pages.overview, name="stripe_overview"),
    path("stripe/events/<str:pk>", pages.event_detail, name="stripe_event"),
    path("portal/payment-methods", pages.payment_methods, name="payment_methods"),
]
