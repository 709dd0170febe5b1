"""Steps as people read them: unit prices with four significant digits, and nothing else rounded."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from apps.figures import NARROW_SPACE
from apps.pricing.rating import Counts, Terms, rate
from apps.pricing.rating.shown import figure, step_shown
from apps.pricing.rating.terms import PER_TERA
from tests.pricing.rating.books import book

COUNTS = Counts(operations=704_000_000, cycles=90_000)
SCALES = {"per tera-operation": 1, "per thousand tera-operations": 1000, "per million tera-operations": 10**6}
PRICES = st.decimals("0.000000000001", "99999", places=12, allow_nan=False).filter(bool)


def _priced(price: Decimal) -> dict[str, str]:
    """The step from operations to money in a rating of its own, as a document has it."""
    sold = book(lambda document: document["prices"]["lpu"].update(float32=f"{price:f}"))
    rating = rate(book=sold, counts=COUNTS, executions=1000, terms=Terms("lpu", "float32", "standard"))
    return next(step.to_json() for step in rating.steps if step.operation == PER_TERA)


@given(PRICES)
def test_a_price_of_operations_has_four_significant_digits_and_the_step_all(price: Decimal) -> None:
    step = _priced(price)
    shown = step_shown(step, "EUR")
    said, _, per = shown.factor.partition(" ")
    told = Decimal(said.removeprefix(f"€{NARROW_SPACE}").replace(",", ""))
    assert abs(told / SCALES[per] / price - 1) <= Decimal("0.0005")
    assert len(told.normalize().as_tuple().digits) <= 4 or told >= 10  # at least the currency's own places
    assert shown.factor in shown.rule
    assert step["factor"] not in shown.rule.replace(shown.factor, "")
    assert step["rule"].count(f"{step['factor']} EUR per tera-operation") == 1  # the stored sentence keeps every digit
    assert shown.exact == f"{figure(step['factor'])} EUR per tera-operation"


def test_what_is_no_unit_price_keeps_every_digit() -> None:
    rating = rate(book=book(), counts=COUNTS, executions=7, terms=Terms("lpu", "float32", "standard"))
    for step in rating.steps:
        shown = step_shown(step, "EUR")
        texts = {"input": shown.input, "factor": shown.factor, "result": shown.result}
        for name, value in ((name, step.to_json()[name]) for name in texts):
            assert texts[name] == figure(value) or (name, step.operation) == ("factor", PER_TERA)
        assert (shown.exact == "") == (step.operation != PER_TERA)


def test_the_price_of_one_execution_in_a_part_is_a_unit_price_too() -> None:
    """Of a class whose price follows the hours, each part begins from what one execution costs."""
    hours = book(lambda document: document["classes"]["standard"].update(time_of_use=True))
    terms = Terms("lpu", "float32", "standard", instant=datetime(2026, 11, 24, 10, 30, tzinfo=UTC))
    (name, *_) = [period.name for period in hours.tariff.periods]
    rating = rate(book=hours, counts=COUNTS, executions=7, terms=terms, periods={name: 7})
    shown = next(step_shown(step, "EUR") for step in rating.steps if step.name == f"list:{name}")
    assert shown.input == f"€{NARROW_SPACE}5.632 per million executions"
    assert shown.exact == "0.000005632 EUR per execution"
