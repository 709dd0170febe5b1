"""The addresses of the house itself."""

from tests.tenancy import page

ROUTES = [
    page("/healthz", public=True),
    page("/readyz", public=True),
    page("/metrics", public=True),
    page("/", public=True),
    page("/docs", public=True),
    page("/docs/<path:name>", public=True, make=lambda _: {"name": "glossary"}),
]
