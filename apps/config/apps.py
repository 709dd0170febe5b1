from django.apps import AppConfig


class ConfigConfig(AppConfig):
    name = "apps.config"
    label = "config"
