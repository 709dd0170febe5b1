from django.apps import AppConfig


class CollectionConfig(AppConfig):
    name = "apps.collection"
    label = "collection"

    def ready(self) -> None:
        """Register Stripe as a payment provider."""
        from apps.collection.provider import Stripe
        from apps.invoicing.payments import provider_register

        provider_register(Stripe())
