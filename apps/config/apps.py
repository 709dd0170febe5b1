import gc

from django.apps import AppConfig


class ConfigConfig(AppConfig):
    name = "apps.config"
    label = "config"

    def ready(self) -> None:
        """Turn on the garbage collector, which the settings turn off, and exempt all existing objects.

        A migration, or a page with many rows, creates thousands of objects that all live until it ends. Therefore, the
        collector runs after 20,000 new objects instead of Python's default of 700.
        """
        gc.freeze()
        gc.set_threshold(20_000, 10, 10)
        gc.enable()
