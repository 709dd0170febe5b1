"""What only the administrator's reports write."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps import figures
from apps.reports.costs import rounded

register = template.Library()


@register.filter
def known(amount: Fraction | Decimal | None, currency: str) -> SafeString:
    """{{ part.margin|known:report.currency }}: an amount, or in words that it is not known."""
    exact = rounded(amount)
    if exact is None:
        return format_html('<span class="text-secondary">{}</span>', "not known")
    said, title = figures.money_format(exact, currency), figures.money_exact_format(exact, currency)
    return format_html('<span class="money" title="{}">{}</span>', title, said)
