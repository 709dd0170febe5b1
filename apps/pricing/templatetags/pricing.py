"""How pages show the figures of a derivation."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from django import template

from apps.figures import notice_format, share_format
from apps.pricing.derivation import shown, text

register = template.Library()


@register.filter
def figure_of(value: Fraction) -> str:
    """Four significant digits; whole numbers with thousands separated."""
    return shown(value)


@register.filter
def decimal_figure(value: Fraction) -> str:
    """All digits."""
    return text(value)


@register.filter
def notice(minutes: int) -> str:
    """{{ term.notice_minutes|notice }}: 1440 -> 24 h."""
    return notice_format(minutes)


@register.filter
def agreed(share: Decimal | str) -> str:
    """{{ term.share|agreed }}: 0.4 -> 40 %."""
    return share_format(Decimal(share))
