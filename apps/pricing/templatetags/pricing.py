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
    """Format a figure with four significant digits. A whole number keeps all digits and has thousands separators."""
    return shown(value)


@register.filter
def decimal_figure(value: Fraction) -> str:
    """Format a figure with all its digits."""
    return text(value)


@register.filter
def notice(minutes: int) -> str:
    """Format minutes as hours: {{ term.notice_minutes|notice }} shows 1440 as 24 h."""
    return notice_format(minutes)


@register.filter
def agreed(share: Decimal | str) -> str:
    """Format a share as a percentage: {{ term.share|agreed }} shows 0.4 as 40 %."""
    return share_format(Decimal(share))
