from django.apps import AppConfig


class BillingConfig(AppConfig):
    name = "apps.billing"
    label = "billing"

    def ready(self) -> None:
        """Make the ways of paying known."""
        from apps.billing.payments import provider_register
        from apps.billing.stripe.provider import Stripe

        provider_register(Stripe())
