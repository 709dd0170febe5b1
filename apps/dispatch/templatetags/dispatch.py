"""What pages of lower rooms show of jobs."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils import timezone

from apps.dispatch.kept import promises_of_contract
from apps.sales.models import Contract

register = template.Library()


@register.inclusion_tag("dispatch/_promises.html")
def promises_kept(contract: Contract) -> dict[str, Any]:
    """{% promises_kept contract %}: what the contract promised beside what its jobs kept."""
    return {"promises": promises_of_contract(contract, now=timezone.now())}
