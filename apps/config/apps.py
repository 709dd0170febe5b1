import gc

from django.apps import AppConfig


class ConfigConfig(AppConfig):
    name = "apps.config"
    label = "config"

    def ready(self) -> None:
        """Turn on the garbage collector, which the settings turned off; it never looks at what is loaded by now."""
        gc.freeze()
        gc.enable()
