"""Template tags that show information about jobs on the pages of other apps."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils import timezone

from apps.dispatch.promises import promises_of_contract
from apps.sales.models import Contract

register = template.Library()


@register.inclusion_tag("dispatch/_promises.html")
def promises_kept(contract: Contract) -> dict[str, Any]:
    """{% promises_kept contract %} shows the promises of a contract and whether they were kept."""
    return {"promises": promises_of_contract(contract, now=timezone.now())}
