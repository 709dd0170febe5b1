"""Feasible means accepted, if accepted now: plans over random timetables against what selling does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.test import Client
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.compilation.models import Program
from apps.fleet.models import Pool
from apps.planner.capacity import Timetables
from apps.planner.models import Plan
from apps.planner.plan_text import change_rows
from apps.planner.services import plan_create
from apps.planner.solver import Demand, Requirements
from apps.pricing.limits import Window
from apps.pricing.selectors import book_in_force, document_of
from apps.sales.models import Contract
from apps.sales.plans import plan_lines_get
from apps.sales.services import QuoteLine, quote_accept, quote_create
from apps.timetable.selectors import windows_of
from apps.timetable.services import CapacityTaken, reservation_take
from tests.cast import Cast, assemble
from tests.sales.market import CLOCK, NOW, Market, open_market
from tests.sales.test_loading import loaded
from tests.tiers import some

AsToken = Callable[..., Client]
HOUR = 3600 * CLOCK  # cycles
DAY = timedelta(days=1)
REFUSALS = ("capacity-taken", "window")  # there is no room, or there never can be within the window


def busy(cast: Cast, pool: Pool, start: datetime, length: timedelta) -> None:
    """Some time of one of the pool's devices is taken; where it is not free, somebody else has it already."""
    seconds = Fraction(length // timedelta(microseconds=1), 10**6)
    try:
        with transaction.atomic():
            reservation_take(
                contract_id=uuid4(),
                organisation_id=cast.stranger_organisation.pk,
                pool=pool,
                duration=seconds,
                not_before=start,
                not_after=start + length,
                klass="standard",
                now=NOW,
            )
    except CapacityTaken:
        pass


def planned(
    cast: Cast, program: Program, items: int, *, klass: str = "standard", until: datetime | None = None
) -> Plan:
    return plan_create(
        subject=program.model_version,
        requirements=Requirements(items),
        klass=klass,
        actor=cast.engineer,
        now=NOW,
        until=until,
    )


def row_of(plan: Plan, pool: Pool) -> dict[str, Any]:
    (row,) = (row for row in plan.candidates if row["pool"] == pool.slug)
    return row


def accepted(
    cast: Cast, program: Program, items: int, *, pool: Pool, klass: str, until: datetime | None
) -> tuple[Contract, datetime]:
    """The contract that selling makes of a plan's row, and when its last window ends; taken back at once. Raises
    Problem with a kind of REFUSALS."""
    with transaction.atomic():
        quote = quote_create(
            organisation=cast.organisation,
            lines=[QuoteLine(program, items)],
            klass=klass,
            pool=pool,
            window=(None, until),
            actor=cast.engineer,
            now=NOW,
        )
        contract = quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=cast.owner, now=NOW)
        ends = max(window.end for window in windows_of(contract.pk))
        transaction.set_rollback(True)
    return contract, ends


class Feasible(TestCase):
    """Over random timetables, volumes, classes and windows."""

    @settings(max_examples=some(60), deadline=None)
    @given(
        st.integers(1, 3),
        st.lists(st.tuples(st.integers(0, 80), st.integers(1, 30)), max_size=12),
        st.integers(1, 40),
        st.integers(1, 8),
        st.sampled_from(["standard", "priority", "batch"]),
        st.none() | st.integers(2, 120),
        st.integers(0, 3),
    )
    def test_what_a_plan_calls_feasible_is_sold_and_nothing_else(
        self,
        devices: int,
        taken: list[tuple[int, int]],
        items: int,
        hours: int,
        klass: str,
        until: int | None,
        load: int,
    ) -> None:
        market, cast = open_market(devices=devices), assemble()
        for start, length in taken:
            busy(cast, market.lpu, NOW + timedelta(hours=start), timedelta(hours=length))
        program = market.program(
            cast.organisation, cast.engineer, interval=hours * HOUR // 4, latency=hours * HOUR // 4 + 77
        )
        loaded(program, load * HOUR)
        latest = None if until is None else NOW + timedelta(hours=until)
        row = row_of(planned(cast, program, items, klass=klass, until=latest), market.lpu)
        try:
            contract, ends = accepted(cast, program, items, pool=market.lpu, klass=klass, until=latest)
        except Problem as refused:
            if refused.kind not in REFUSALS:
                raise
            assert not row["feasible"]
            assert row["reasons"]
            return
        assert row["feasible"], row["reasons"]
        assert row["completion"] == ends.isoformat()
        assert Fraction(row["price"]) == Fraction(contract.net), "the price is that of the same window"


@pytest.fixture
def market(cast: Cast) -> Market:
    return open_market()


def test_a_volume_that_no_pool_has_room_for_is_infeasible_and_says_how_many_fit(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    plan = planned(cast, program, 10**12)
    row = row_of(plan, market.lpu)
    assert plan.chosen is None
    (reason,) = row["reasons"]
    fitting = int(reason.split("at most ")[1].split(" ")[0].replace(",", ""))
    assert row_of(planned(cast, program, fitting, until=NOW + 62 * DAY), market.lpu)["feasible"]
    assert not row_of(planned(cast, program, fitting + 1, until=NOW + 62 * DAY), market.lpu)["feasible"]


@pytest.mark.parametrize("klass", ["standard", "priority"])
def test_work_of_a_million_years_is_refused_like_any_other(cast: Cast, market: Market, klass: str) -> None:
    """Longer than a date can say, and than a refusal's column holds."""
    program = market.program(cast.organisation, cast.engineer, interval=HOUR, latency=HOUR)
    row = row_of(planned(cast, program, 10**12, klass=klass), market.lpu)
    assert not row["feasible"]
    with pytest.raises(Problem) as refused:
        accepted(cast, program, 10**12, pool=market.lpu, klass=klass, until=None)
    assert refused.value.kind in REFUSALS


def test_what_fits_only_later_says_when_and_that_is_true(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer, interval=HOUR, latency=HOUR)
    busy(cast, market.lpu, NOW, 8 * DAY)
    plan = planned(cast, program, 5)
    assert plan.chosen is None
    (change,) = change_rows(plan, "EUR")
    assert "If you allow a deadline of 2026-12-02 15:30 UTC, " in change["text"]
    later = planned(cast, program, 5, until=NOW + 8 * DAY + timedelta(hours=5))
    assert later.chosen is not None
    assert later.chosen["completion"] == (NOW + 8 * DAY + timedelta(hours=5)).isoformat()


def test_the_quote_of_a_plan_ends_when_the_task_said(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    until = NOW + timedelta(hours=30)
    stated, unstated = planned(cast, program, 10, until=until), planned(cast, program, 10)
    lines = {
        plan.pk: plan_lines_get(organisation=cast.organisation, plan_id=plan.pk, items=None)
        for plan in (stated, unstated)
    }
    assert (lines[stated.pk].until, lines[unstated.pk].until) == (until, None)


def test_work_of_two_programs_stays_in_one_piece_as_it_is_sold(cast: Cast, market: Market) -> None:
    """A cascade's reason names the longest free time, which no cut makes longer."""
    for hours in range(0, 62 * 24, 2):
        busy(cast, market.lpu, NOW + timedelta(hours=hours), timedelta(hours=1))
    book = document_of(book_in_force(at=NOW))
    timetables = Timetables(book=book, klass="standard", window=Window(NOW, NOW + 7 * DAY), now=NOW)
    whole = Demand("lpu-a", Fraction(5400), Fraction(0), None)
    assert timetables(whole).completion is None
    assert "the longest free time" in timetables(whole).reason
    cut = Demand("lpu-a", Fraction(5400), Fraction(0), Fraction(60))
    assert timetables(cut).completion is not None


@pytest.mark.parametrize(
    ("until", "said"),
    [
        (NOW, "The deadline is in the past"),
        (NOW - DAY, "The deadline is in the past"),
        (NOW + 63 * DAY, "at most 62 days from now"),
    ],
)
def test_an_instant_that_no_quote_reaches_is_refused(cast: Cast, market: Market, until: datetime, said: str) -> None:
    with pytest.raises(Problem, match=said):
        planned(cast, market.program(cast.organisation, cast.engineer), 10, until=until)
    assert not Plan.objects.exists()


@pytest.mark.parametrize("until", [1_795_730_000, "2026-11-30", "2026-11-30T22:00:00", "garbage", ""])
def test_an_instant_is_written_with_its_time_and_zone(
    cast: Cast, market: Market, as_token: AsToken, until: Any
) -> None:
    version = market.program(cast.organisation, cast.engineer).model_version
    body = {"version_id": str(version.pk), "items": 10, "until": until}
    answer = as_token(cast.owner, cast.organisation, Scope.BUILD).post(
        "/api/v1/plans", body, content_type="application/json"
    )
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(
        "until: Write a date and time with its time zone, for example 2026-11-30T22:00:00Z"
    )
