"""The URLs of all apps. The tables in tests/*/tenancy.py state who may open each URL."""

from django.conf import settings
from django.urls import URLPattern, URLResolver, include, path

from apps.config import health
from apps.config.api import api

handler400 = "apps.config.failures.unreadable"
handler500 = "apps.config.failures.failure"

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
    path("api/v1/", api.urls),
    *[path("", include(f"apps.{room}.urls")) for room in settings.ROOMS],
]
