import gc

from django.apps import AppConfig


class ConfigConfig(AppConfig):
    name = "apps.config"
    label = "config"

    def ready(self) -> None:
        """Turn on the garbage collector, which the settings turned off; it never looks at what is loaded by now.

        A migration or a page of many rows makes thousands of objects that live until its end: the collector looks at them
        each time when 20,000 are new, not 700.
        """
        gc.freeze()
        gc.set_threshold(20_000, 10, 10)
        gc.enable()
