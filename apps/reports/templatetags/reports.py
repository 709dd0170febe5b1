"""Template filters and tags for the report pages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps import figures
from apps.reports.costs import rounded
from apps.reports.period_reports.core import Value

register = template.Library()
WRITTEN: dict[str, Callable[[Fraction | int], str]] = {
    "share": figures.percent_format,
    "seconds": figures.duration_format,
    "count": figures.count_format,
}


@register.filter
def known(amount: Fraction | Decimal | None, currency: str) -> SafeString:
    """Format an amount; None becomes "not known"."""
    exact = rounded(amount)
    if exact is None:
        return format_html('<span class="text-secondary">{}</span>', "not known")
    text, title = figures.money_format(exact, currency), figures.money_exact_format(exact, currency)
    return format_html('<span class="money" title="{}">{}</span>', title, text)


@register.filter
def share(value: float | None) -> str:
    """Format a share as a percentage; None becomes "none"."""
    return "none" if value is None else figures.percent_format(value, 1)


@register.filter
def wait(seconds: float | str | None) -> str:
    """Format seconds as a duration, or return "none" if `seconds` is not a number."""
    if not isinstance(seconds, float | int):  # templates read a missing dictionary as ""
        return "none"
    return figures.duration_format(Fraction(seconds).limit_denominator(1_000_000))


@register.filter
def age_seconds(at: datetime, now: datetime) -> int:
    """Return the number of whole seconds from `at` to `now`; 0 if `at` is later."""
    return max(0, int((now - at).total_seconds()))


@register.filter
def heat(value: float | None) -> int:
    """Return the heat level of a share, from 0 to 6."""
    return 0 if not value else min(6, -int(-value * 6 // 1))


@register.simple_tag
def cell(value: Value, kind: str, currency: str = "") -> str:
    """Format a report value in its unit; None becomes "not known"."""
    if value is None:
        return format_html('<span class="text-secondary">{}</span>', "not known")
    if kind == "money" and isinstance(value, Fraction | Decimal):
        return known(value, currency)
    if isinstance(value, Fraction | int) and kind in WRITTEN:
        return WRITTEN[kind](value)
    return str(value)


@register.filter
def is_figure(kind: str) -> bool:
    """Return True if columns of this kind are right-aligned."""
    return kind not in {"text", "day", "instant"}


@register.filter
def heat_of(value: Fraction | None) -> int:
    """Return the heat level of an exact share, from 0 to 6."""
    return 0 if not value else min(6, -int(-value * 6 // 1))
