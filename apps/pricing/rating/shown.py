"""A pricing step in the form that people read: unit prices have four significant digits, everything else keeps every digit.

The step itself is stored, hashed, billed and recomputed; files for programs (JSON, CSV) contain it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apps.figures import Currency, unit_price_format
from apps.pricing.rating.terms import PER_TERA, Step

LISTED_PART = "list:"  # the list price of a part of the executions: its input is the price of one


@dataclass(frozen=True)
class StepShown:
    """The texts of a step. `exact` is its unit price with every digit; empty if it has none."""

    title: str
    rule: str
    operation: str
    input: str
    factor: str
    result: str
    unit: str
    exact: str


def step_shown(step: Step | Mapping[str, str], currency: Currency) -> StepShown:
    """Return a step, or its JSON form, as texts; `currency` is that of the price."""
    told = step.to_json() if isinstance(step, Step) else step
    value, factor, rule, exact = figure(told["input"]), figure(told["factor"]), told["rule"], ""
    if told["operation"] == PER_TERA:
        exact = f"{factor} {told['unit']} per tera-operation"
        factor = " ".join(unit_price_format(told["factor"], currency, thing="tera-operation"))
        rule = rule.replace(f"{told['factor']} {told['unit']} per tera-operation (10^12)", factor)
    elif told["name"].startswith(LISTED_PART):
        exact = f"{value} {told['unit']} per execution"
        value = " ".join(unit_price_format(told["input"], currency))
    return StepShown(told["title"], rule, told["operation"], value, factor, figure(told["result"]), told["unit"], exact)


def figure(text: str) -> str:
    """Return a decimal text with thousands separators; every digit is kept."""
    whole, dot, part = text.removeprefix("-").partition(".")
    return f"{'-' if text.startswith('-') else ''}{int(whole):,}{dot}{part}"
