"""How pages show the figures of a derivation."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

from django import template

from apps.figures import notice_format, share_format, unit_price_format
from apps.pricing.derivation import shown, text
from apps.pricing.selectors import Difference

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


@register.simple_tag
def told_difference(row: Difference, before: str, after: str) -> tuple[str, str]:
    """{% told_difference row before.currency after.currency as told %}: both values for display. Unit prices have the
    usual format, unless the two would look alike: then all digits are shown.
    """
    values = row.before or "-", row.after or "-"
    if not row.place.startswith("prices."):
        return values
    both = [_unit_price(value, code) for value, code in zip(values, (before, after), strict=True)]
    return values if both[0] == both[1] else (both[0], both[1])


def _unit_price(value: str, currency: str) -> str:
    """A price from a book's JSON, which is in quotes; "-" if there is none."""
    return "-" if value == "-" else " ".join(unit_price_format(json.loads(value), currency, thing="tera-operation"))
