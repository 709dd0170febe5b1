from django.apps import AppConfig


class DispatchConfig(AppConfig):
    name = "apps.dispatch"
    label = "dispatch"
