from django.apps import AppConfig


class SalesConfig(AppConfig):
    name = "apps.sales"
    label = "sales"

    def ready(self) -> None:
        """Register the rule that protects the model files of active contracts."""
        from apps.registry.services import KEEPERS
        from apps.sales.selectors import version_keep_reason

        if version_keep_reason not in KEEPERS:
            KEEPERS.append(version_keep_reason)
