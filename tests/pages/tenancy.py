"""The addresses of the pages that belong to no single room."""

from typing import Any

from tests.cast import Cast
from tests.compilation.helpers import compiled
from tests.tenancy import page


def a_program(cast: Cast) -> dict[str, Any]:
    return {"pk": compiled(cast, "digits-small").pk}


def a_file(cast: Cast) -> dict[str, Any]:
    return {**a_program(cast), "kind": "operations.csv"}


ROUTES = [
    page("/", public=True),
    page("/search", public=True),
    page("/search/options", public=True),
    page("/programs/compare"),
    page("/programs/<uuid:pk>", make=a_program),
    page("/programs/<uuid:pk>/timeline", make=a_program),
    page("/programs/<uuid:pk>/graph", make=a_program),
    page("/programs/<uuid:pk>/download/<str:kind>", make=a_file),
    page("/problems/<slug:code>", public=True, make=lambda _: {"code": "capacity-taken"}),
    page("/docs", public=True),
    page("/docs/<path:name>", public=True, make=lambda _: {"name": "reference/glossary"}),
]
