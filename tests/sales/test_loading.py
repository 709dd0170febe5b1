"""Loading is device time that a window reserves, is shown, and costs nothing; what was sold without it stays as it was."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client

from apps.compilation.models import Program
from apps.figures import plain
from apps.fleet.models import Pool
from apps.sales.models import Contract, Quote
from apps.sales.selectors import contract_duration
from apps.sales.services import QuoteLine, quote_accept, quote_create
from apps.sales.snapshots import ProgramSnapshot, snapshot_of
from apps.timetable.selectors import windows_of
from apps.timetable.services import CapacityTaken, reservation_take
from tests.cast import Cast
from tests.sales.market import CLOCK, NOW, Market, open_market

LOAD = {
    "instructions": 1024,
    "constants": 4096,
    "state": 0,
    "external": 0,
    "bytes_in": 5120,
    "bytes_out": 0,
    "cycles_out": 0,
}


def loaded(program: Program, cycles: int) -> Program:
    """The program, whose loading takes that many cycles; 0: as it was stored before loading was counted."""
    program.resources = {"load": {**LOAD, "cycles_in": cycles}} if cycles else {}
    program.save(update_fields=["resources"])
    return program


def quoted(cast: Cast, pool: Pool, *lines: tuple[Program, int], **more: Any) -> Quote:
    return quote_create(
        organisation=cast.organisation,
        lines=[QuoteLine(*line) for line in lines],
        klass="standard",
        pool=pool,
        window=(NOW, NOW + timedelta(hours=40)),
        actor=cast.engineer,
        now=NOW,
        **more,
    )


def accepted(cast: Cast, quote: Quote) -> Contract:
    return quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=cast.owner, now=NOW)


def lengths(contract: Contract) -> list[timedelta]:
    return [window.end - window.start for window in windows_of(contract.pk)]


@pytest.fixture
def market(cast: Cast) -> Market:
    return open_market()


def test_a_quote_reserves_loading_once_and_charges_nothing_for_it(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer, interval=CLOCK, latency=CLOCK + 7)
    without = quoted(cast, market.lpu, (program, 10))
    assert "loading" not in without.document
    assert "load" not in without.document["lines"][0]["program"]
    found = quoted(cast, market.lpu, (loaded(program, 3 * CLOCK), 10))
    assert Fraction(found.document["device_seconds"]) == Fraction(without.document["device_seconds"]) + 3
    assert (found.worst, found.document["net"], found.document["lines"][0]["rating"]) == (
        without.worst,
        without.document["net"],
        without.document["lines"][0]["rating"],
    )
    assert found.document["loading"] == {
        "bytes": 5120,
        "cycles": 3 * CLOCK,
        "seconds": "3",
        "reserved": "once in each window",
        "charged": False,
    }
    said = [plain(sentence) for sentence in found.document["assumptions"] if sentence.startswith("Loading")]
    assert said == [
        "Loading: 5.00 KiB over the link, 3.00 s before the first item in each window; reserved and not charged."
    ]
    contract = accepted(cast, found)
    assert contract.terms["loading"] == found.document["loading"]
    assert lengths(contract) == [timedelta(seconds=13, microseconds=1)]


def test_programs_of_one_contract_are_loaded_one_after_the_other(cast: Cast, market: Market) -> None:
    first, second = (
        loaded(market.program(cast.organisation, cast.engineer), cycles) for cycles in (2 * CLOCK, 5 * CLOCK)
    )
    bare = [loaded(market.program(cast.organisation, cast.engineer), 0) for _ in range(2)]
    both = quoted(cast, market.lpu, (first, 4), (second, 4))
    none = quoted(cast, market.lpu, (bare[0], 4), (bare[1], 4))
    assert Fraction(both.document["device_seconds"]) - Fraction(none.document["device_seconds"]) == 7
    assert (both.document["loading"]["cycles"], both.document["loading"]["bytes"]) == (7 * CLOCK, 10240)


def test_a_slower_clock_loads_slower_and_a_host_loads_nothing(cast: Cast, market: Market) -> None:
    program = loaded(market.program(cast.organisation, cast.engineer), CLOCK)
    pool = market.lpu
    pool.power_percent = 50
    half = quoted(cast, pool, (program, 1)).document
    assert (half["loading"]["cycles"], half["loading"]["seconds"]) == (CLOCK, "2")


def test_every_window_of_work_that_is_cut_begins_with_its_own_load(cast: Cast, market: Market) -> None:
    """Free are ten pieces of a minute, of which a load takes 25 s; two executions of 15 s fit behind it."""
    for minute in range(1, 21, 2):
        _busy(cast, market.lpu, NOW + timedelta(minutes=minute), timedelta(minutes=1))
    _busy(cast, market.lpu, NOW + timedelta(minutes=20), timedelta(days=60))
    program = market.program(cast.organisation, cast.engineer, interval=15 * CLOCK, latency=15 * CLOCK)
    contract = accepted(cast, quoted(cast, market.lpu, (loaded(program, 25 * CLOCK), 20)))
    assert lengths(contract) == [timedelta(seconds=55)] * 10
    with pytest.raises(CapacityTaken):
        accepted(cast, quoted(cast, market.lpu, (program, 1)))


def _busy(cast: Cast, pool: Pool, start: datetime, length: timedelta) -> None:
    reservation_take(
        contract_id=uuid4(),
        organisation_id=cast.stranger_organisation.pk,
        pool=pool,
        not_before=start,
        duration=Fraction(length // timedelta(seconds=1)),
        not_after=start + length,
        klass="standard",
        now=NOW,
    )


def test_what_was_sold_before_loading_was_counted_keeps_its_windows(cast: Cast, market: Market) -> None:
    """The frozen facts say nothing of it, though the program's own report does now."""
    program = market.program(cast.organisation, cast.engineer, interval=CLOCK, latency=CLOCK)
    quote = quoted(cast, market.lpu, (program, 10))
    loaded(program, 3 * CLOCK)
    contract = accepted(cast, quote)
    assert lengths(contract) == [timedelta(seconds=10)]
    assert contract_duration(contract) == 10
    stored = contract.terms["lines"][0]["program"]
    assert ProgramSnapshot.from_json(stored).to_json() == stored
    assert snapshot_of(program).load_cycles == 3 * CLOCK


def test_the_pages_say_what_is_loaded_and_that_it_is_free(cast: Cast, market: Market, client: Client) -> None:
    program = loaded(market.program(cast.organisation, cast.engineer), CLOCK // 1000)
    quote = quoted(cast, market.lpu, (program, 10))
    contract = accepted(cast, quote)
    client.force_login(cast.owner)
    for path in (f"/quotes/{quote.pk}", f"/contracts/{contract.pk}"):
        text = plain(client.get(path).content.decode())
        assert (
            "5.00 KiB over the link, 1.00 ms before the first item in each window; reserved and not charged" in text
        ), path
