"""Template filters for the figures of a price derivation."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from django import template

from apps.figures import notice_format, share_format
from apps.pricing.derivation import shown, text

register = template.Library()


@register.filter
def figure_of(value: Fraction) -> str:
    """Format a figure with four significant digits. A whole number keeps all digits."""
    return shown(value)


@register.filter
def decimal_figure(value: Fraction) -> str:
    """Format a figure with all digits."""
    return text(value)


@register.filter
def notice(minutes: int) -> str:
    """Format a number of minutes as hours, such as "24 h" for 1440."""
    return notice_format(minutes)


@register.filter
def agreed(share: Decimal | str) -> str:
    """Format a share as a percentage, such as "40 %" for 0.4."""
    return share_format(Decimal(share))
