"""The host's price from its measurement: its own arithmetic, its source in sight, and the book's price beside it, unchanged."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from apps.figures import NARROW_SPACE, unit_price_format
from apps.pricing.derivation import HOUR, TERA, text
from apps.pricing.measured import measured_price
from apps.pricing.seed import BOOKS, SHIPPED, derivation, host_measured, shipped
from benchmarks.host import QUIETEST, Round, record_of


def _record(**changes: Any) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads((BOOKS / "host-measured.json").read_text())
    return kept | changes


@given(st.integers(min_value=1, max_value=10**9))
def test_a_used_hour_at_the_measured_price_fetches_what_it_must(micro: int) -> None:
    found = derivation()
    host = next(one for one in found.classes if one.name == "host")
    price = measured_price(found, _record(processor_microseconds=micro)).price
    images = Fraction(HOUR * 10**6, micro)
    fetched = images * _record()["operations"] / TERA * price.price
    must = host.target / host.expected_use
    assert must <= fetched <= must * Fraction(1001, 1000)


def test_the_measured_program_is_the_reference_of_the_other_classes() -> None:
    targets = json.loads((BOOKS / f"targets-{SHIPPED[-1]}.json").read_text())
    assert _record()["operations"] == targets["classes"]["lpu"]["precisions"]["float32"]["operations"]


def test_a_measurement_changes_no_book_and_is_told_beside_it() -> None:
    found = derivation()
    slow, fast = (measured_price(found, _record(processor_microseconds=micro)) for micro in (400_000, 100_000))
    book = Fraction(shipped(SHIPPED[-1])["prices"]["host"]["float32"])
    assert slow.stated.price == fast.stated.price == book
    assert slow.price.price > book > fast.price.price
    assert "A published book never changes" in fast.said
    with pytest.raises(ValueError, match="not 'takt-host-measurement/1'"):
        measured_price(found, _record(format="another"))


def test_everybody_may_read_what_was_measured_when_and_how(client: Client) -> None:
    page, measured = " ".join(client.get("/prices/derivation").content.decode().split()), host_measured()
    assert f"measured on {_record()['measured_on']} by python -m benchmarks.host --record on" in page
    assert f"other processes used at most {_record()['others_percent']} % of the" in page
    for price in (measured.price, measured.stated):
        said, per = unit_price_format(text(price.price), "EUR", thing="tera-operation")
        assert f"{said} {per}".replace(NARROW_SPACE, " ") in page


def test_the_quietest_rounds_count() -> None:
    quiet = [Round((0.2,), (0.1,), 0.01 * number) for number in range(QUIETEST)]
    loud = [Round((0.9,), (0.5,), 0.8)] * 20
    found = record_of([*loud, *quiet], 8_000)
    assert (found["processor_microseconds"], found["clock_microseconds"]) == (100_000, 200_000)
    assert (found["others_percent"], found["rounds"], found["operations"]) == ("4.0", 25, 8_000)
    assert found.keys() == _record().keys()
