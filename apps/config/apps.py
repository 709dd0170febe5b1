import gc

from django.apps import AppConfig


class ConfigConfig(AppConfig):
    name = "apps.config"
    label = "config"

    def ready(self) -> None:
        gc.freeze()
        gc.set_threshold(20_000, 10, 10)
        gc.enable()
