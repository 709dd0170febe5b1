"""The addresses of the pages that belong to no single room."""

from typing import Any

from django.utils import timezone

from apps.pages.saved_filters import filter_save
from tests.cast import Cast
from tests.compilation.helpers import compiled
from tests.tenancy import page


def a_program(cast: Cast) -> dict[str, Any]:
    return {"pk": compiled(cast, "digits-small").pk}


def a_file(cast: Cast) -> dict[str, Any]:
    return {**a_program(cast), "kind": "operations.csv"}


def a_filter(cast: Cast) -> dict[str, Any]:
    saved = filter_save(
        organisation=cast.organisation,
        user=cast.owner,
        page="registry:model_list",
        name="mine",
        query="q=a",
        now=timezone.now(),
    )
    return {"pk": saved.pk}


ROUTES = [
    page("/", public=True),
    page("/filters", "POST", body={"page": "registry:model_list", "name": "mine", "query": "q=a"}),
    page("/filters/<uuid:pk>/delete", "POST", make=a_filter, own=True),
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
