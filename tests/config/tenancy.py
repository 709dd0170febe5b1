"""The addresses of the house itself."""

from tests.tenancy import page

ROUTES = [
    page("/healthz", public=True),
    page("/readyz", public=True),
    page("/metrics", public=True),
]
