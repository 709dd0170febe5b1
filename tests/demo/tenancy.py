"""Who may open the addresses of the demonstration."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from apps.demo.visitors import visitor_make
from tests.cast import Cast
from tests.tenancy import page


def _open(cast: Cast) -> dict[str, Any]:
    cast.organisation.sample_until = timezone.now()
    cast.organisation.save(update_fields=["sample_until"])
    visitor_make(organisation=cast.organisation, now=timezone.now())
    return {}


ROUTES = [
    page("/demo/visit", "POST", public=True, make=_open),
    page("/demo/leave", "POST", public=True),
]
