from django.apps import AppConfig


class CompilationConfig(AppConfig):
    name = "apps.compilation"
    label = "compilation"
