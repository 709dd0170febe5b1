"""The shipped book is what its targets give, to the digit, and an hour of a device fetches what was stated."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

import compiler
from apps.pricing.derivation import HOUR, derive, hour_fetches, rounded_up, text
from apps.pricing.models import PriceBook
from apps.pricing.rating import Counts, Terms, book_from_json, rate
from apps.pricing.seed import BOOKS, SHIPPED, derivation, seed, shipped
from apps.pricing.selectors import book_in_force
from apps.pricing.services import pricebook_publish
from tests.cast import Cast

SAMPLES = Path(__file__).parents[2] / "samples"


def _targets() -> tuple[dict[str, Any], dict[str, Any]]:
    targets = json.loads((BOOKS / f"targets-{SHIPPED[-1]}.json").read_text())
    return targets, json.loads((BOOKS / targets["base"]).read_text())


def test_the_shipped_book_is_the_derivation_to_the_digit() -> None:
    assert derivation().document == shipped(SHIPPED[-1])
    assert book_from_json(derivation().document).version == SHIPPED[-1]


@pytest.mark.parametrize("name", ["purchase", "years", "watts", "operation", "margin", "expected_use"])
def test_every_input_moves_the_prices(name: str) -> None:
    targets, base = _targets()
    changed = copy.deepcopy(targets)
    changed["classes"]["lpu"][name]["value"] = str(
        Fraction(changed["classes"]["lpu"][name]["value"]) * Fraction(11, 10)
    )
    before, after = derive(targets, base).document, derive(changed, base).document
    assert before["prices"]["lpu"] != after["prices"]["lpu"]
    assert before["prices"]["lpu2"] == after["prices"]["lpu2"]


def test_an_hour_of_real_programs_fetches_the_target() -> None:
    """Of each program by the product's own rating: at expected use an hour fetches the target, never less; above it only in
    the measure in which the program does more in a cycle than the reference."""
    found = derivation()
    book = book_from_json(found.document)
    for program in found.programs:
        one = next(known for known in found.classes if known.name == program.processor_class)
        assert one.clock_hz is not None
        executions = one.clock_hz * HOUR // program.cycles
        terms = Terms(program.processor_class, program.precision, "standard")
        counts = Counts(program.operations, program.cycles)
        amount = Fraction(rate(book=book, counts=counts, executions=executions, terms=terms).amount) * one.expected_use
        assert abs(amount / program.fetches - 1) < Fraction(1, 10**6)  # the hour's last execution
        dense = Fraction(program.operations, program.cycles) / (one.price(program.precision).per_cycle or 1)
        assert max(dense, Fraction(1)) <= program.ratio < max(dense, Fraction(1)) * (1 + Fraction(1, 1000))


def test_tiny_programs_fetch_it_too() -> None:
    found = derivation()
    one = found.classes[0]
    for name in ("digits-small", "digits-large"):
        graph = compiler.load(str(SAMPLES / f"{name}.onnx"))
        counts = compiler.compile(graph, target="lpu").resources
        fetches = hour_fetches(one, "float32", operations=counts.operations, cycles=counts.interval)
        assert one.target <= fetches < one.target * Fraction(1001, 1000), name


def test_an_hour_that_is_released_late_fetches_what_an_hour_must() -> None:
    """Of every class that blocks others: the share of what a used hour fetches is the target of an hour, no more."""
    found = derivation()
    late = {
        name: one["late_cancellation"] for name, one in found.document["classes"].items() if "late_cancellation" in one
    }
    assert late.keys() == {"standard", "priority", "off_peak", "batch", "guaranteed"}
    for one in found.classes:
        used = next(step.value for step in one.steps if step.unit == "a used hour")
        assert all(Fraction(term["share"]) * used == one.target for term in late.values()), one.name
    targets, base = _targets()
    targets["classes"]["lpu"]["expected_use"]["value"] = "0.25"
    assert derive(targets, base).document["classes"]["standard"]["late_cancellation"]["share"] == "0.25", "the least"


@given(st.fractions(min_value=Fraction(1, 10**12), max_value=10**6))
def test_prices_are_rounded_up_to_four_digits(value: Fraction) -> None:
    rounded = rounded_up(value, 4)
    assert value <= rounded <= value * Fraction(1001, 1000)
    assert Fraction(text(rounded)) == rounded
    assert len(text(rounded).replace(".", "").strip("0")) <= 4


@pytest.mark.django_db
def test_everybody_may_read_it_and_a_fresh_site_sells_by_it(cast: Cast, client: Client) -> None:
    page = client.get("/prices/derivation").content.decode()
    for said in (
        "ResNet-50",
        "0.8816",
        "2.204",
        "459,031",
        "per million tera-operations",
        "SkyPilot",
        "Late cancellation",
    ):
        assert said in page, said
    now = datetime(2026, 11, 22, tzinfo=UTC)
    seed(now=now, organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
    assert book_in_force(at=now).version == SHIPPED[-1]


@pytest.mark.django_db
def test_a_site_that_sells_by_the_first_book_announces_the_next(cast: Cast) -> None:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    pricebook_publish(document=shipped(1), effective_from=now, now=now)
    for _ in range(2):
        seed(now=now + timedelta(days=1), organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
    assert list(PriceBook.objects.values_list("version", flat=True)) == [1, 2]
    assert book_in_force(at=now + timedelta(days=30)).version == 1
    assert book_in_force(at=now + timedelta(days=32)).version == 2


@pytest.mark.django_db
def test_a_site_with_a_book_of_its_own_keeps_it(cast: Cast) -> None:
    now = datetime(2026, 11, 22, tzinfo=UTC)
    pricebook_publish(document={**shipped(1), "floor": "0.3"}, effective_from=now, now=now)
    seed(now=now + timedelta(days=1), organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
    assert PriceBook.objects.count() == 1
