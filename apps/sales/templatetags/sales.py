"""Figures as the pages about money need them."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from django import template

from apps.fleet.models import PoolKind
from apps.ledger.models import Hold, HoldState
from apps.pricing.rating.decimals import subtract
from apps.sales.exports import figure as figure_text

register = template.Library()


@register.filter
def figure(text: str) -> str:
    """A decimal text with its thousands parted, every digit kept."""
    return figure_text(text)


@register.filter
def instant(text: str) -> datetime:
    """An instant of a document."""
    return datetime.fromisoformat(text)


@register.filter
def minus(value: Fraction) -> Fraction:
    """The same with the other sign."""
    return -value


@register.filter
def minus_instant(end: datetime, start: datetime) -> timedelta:
    """The time between two instants."""
    return end - start


@register.filter
def time_kind(kind: str) -> str:
    """How a device time is known, in the badge's words."""
    return "measured" if kind == PoolKind.HOST else "exact"


@register.filter
def hold_left(hold: Hold) -> Decimal:
    """What a hold still sets aside."""
    return subtract(hold.amount, hold.posted) if hold.state == HoldState.PENDING else Decimal(0)
