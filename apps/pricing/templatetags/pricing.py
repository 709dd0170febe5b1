"""Filters for the figures of a derivation on pages."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from django import template

from apps.figures import notice_format, share_format
from apps.pricing.derivation import shown, text

register = template.Library()


@register.filter
def figure_of(value: Fraction) -> str:
    """Show four significant digits; whole numbers have thousands separators."""
    return shown(value)


@register.filter
def decimal_figure(value: Fraction) -> str:
    """Show all digits."""
    return text(value)


@register.filter
def notice(minutes: int) -> str:
    """Show minutes as hours. {{ term.notice_minutes|notice }}: 1440 -> 24 h."""
    return notice_format(minutes)


@register.filter
def agreed(share: Decimal | str) -> str:
    """Show a share as a percentage. {{ term.share|agreed }}: 0.4 -> 40 %."""
    return share_format(Decimal(share))
