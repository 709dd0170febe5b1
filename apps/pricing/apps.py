from django.apps import AppConfig


class PricingConfig(AppConfig):
    name = "apps.pricing"
    label = "pricing"

    def ready(self) -> None:
        """Register the function that gives the report page its prices. The page belongs to a lower layer."""
        from apps.compilation.selectors import PRICERS
        from apps.pricing.previews import program_price

        if program_price not in PRICERS:
            PRICERS.append(program_price)
