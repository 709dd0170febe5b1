"""Formats output values for readers."""

from __future__ import annotations

from math import isfinite, isnan

DIGITS = 4


def number_text(value: float) -> str:
    """Format a number with four significant digits, such as 0.1235, 12 or 1.5e-07."""
    if isnan(value):
        return "not a number"
    if not isfinite(value):
        return "infinity" if value > 0 else "-infinity"
    if value == int(value) and abs(value) < 10**9:
        return f"{int(value):,}"
    return f"{value:.{DIGITS}g}"
