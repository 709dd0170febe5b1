from django.apps import AppConfig


class PricingConfig(AppConfig):
    name = "apps.pricing"
    label = "pricing"

    def ready(self) -> None:
        """Register the source of prices for the report page, which belongs to a lower layer."""
        from apps.compilation.selectors import PRICERS
        from apps.pricing.previews import program_price

        if program_price not in PRICERS:
            PRICERS.append(program_price)
