from django.apps import AppConfig


class PricingConfig(AppConfig):
    name = "apps.pricing"
    label = "pricing"

    def ready(self) -> None:
        # The report page belongs to a lower layer, so the function for its prices is registered here.
        from apps.compilation.selectors import PRICERS
        from apps.pricing.previews import program_price

        if program_price not in PRICERS:
            PRICERS.append(program_price)
