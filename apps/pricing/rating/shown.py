"""Format the steps of a price for display. Unit prices have four significant digits; all other figures keep every
digit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from apps.figures import Currency, unit_price_format
from apps.pricing.rating.terms import PER_TERA, Step

LISTED_PART = "list:"  # the list price of a part of the executions: its input is the price of one


@dataclass(frozen=True)
class StepShown:
    """The texts of a step. `exact` is the unit price with every digit; empty if the step has no unit price."""

    title: str
    rule: str
    operation: str
    input: str
    factor: str
    result: str
    unit: str
    exact: str


def step_shown(step: Step | Mapping[str, str], currency: Currency) -> StepShown:
    """Return the texts of a step. `step` is a Step or its JSON form."""
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
    """Add thousands separators to a decimal number."""
    whole, dot, part = text.removeprefix("-").partition(".")
    return f"{'-' if text.startswith('-') else ''}{int(whole):,}{dot}{part}"
