"""Figures of a derivation, as its page shows them."""

from __future__ import annotations

from fractions import Fraction

from django import template

from apps.pricing.derivation import shown, text

register = template.Library()


@register.filter
def figure_of(value: Fraction) -> str:
    """Four significant digits, whole numbers with their thousands parted."""
    return shown(value)


@register.filter
def decimal_figure(value: Fraction) -> str:
    """Every digit."""
    return text(value)
