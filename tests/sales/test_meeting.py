"""Where held time meets standing requests and changes of the fleet."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.dispatch.contracts import combination_of
from apps.dispatch.fleet import edits, fleet_edit
from apps.planner.models import Plan
from apps.sales.models import Contract, PlanHold, Quote, StandingRequest
from apps.sales.services import plan_hold, quote_accept, quote_create, standing_file, standing_serve
from apps.timetable.models import Window, WindowState
from tests.cast import Cast
from tests.sales.market import CLOCK, NOW, Market, open_market
from tests.sales.test_holds import held, planned

pytestmark = pytest.mark.django_db
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
QUARTER = 900 * CLOCK


@pytest.fixture
def two() -> Market:
    return open_market(devices=2)


def quoted(
    cast: Cast, market: Market, *executions: int, start: timedelta = timedelta(), end: timedelta = 2 * HOUR
) -> Quote:
    """Quarters of an hour, one program each: together they stay in one piece where there are several."""
    programs = [market.program(cast.organisation, cast.engineer, interval=QUARTER, latency=QUARTER) for _ in executions]
    return quote_create(
        organisation=cast.organisation,
        lines=list(zip(programs, executions, strict=True)),
        klass="standard",
        pool=market.lpu,
        window=(NOW + start, NOW + end),
        actor=cast.engineer,
        now=NOW,
    )


def test_a_claim_may_lie_on_time_that_was_held_and_is_free(cast: Cast, two: Market) -> None:
    """Nobody swept the holds away, so their windows still stand in the table when the claim is stood there."""
    for _ in range(2):
        quote = quoted(cast, two, 1, start=HOUR, end=75 * MINUTE)
        quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=cast.engineer, now=NOW)
        held(cast, planned(cast, two, items=2))  # until 40 minutes from now
    for number, executions in enumerate([(3, 2), (1, 1)]):
        quote = quoted(cast, two, *executions)
        standing_file(
            quote_id=quote.pk,
            organisation=cast.organisation,
            most=quote.worst * 2,
            actor=cast.engineer,
            now=NOW + timedelta(seconds=number),
        )
    standing_serve(pool="lpu-a", now=NOW + 31 * MINUTE)  # the first claims from now on, around what is sold
    found = StandingRequest.objects.order_by("number").values_list("state", "reason_kind")
    assert list(found) == [("waiting", "room"), ("served", "")]
    assert not Window.objects.filter(reservation__klass="kept").exists()


def test_a_window_moves_onto_time_that_was_held_and_is_free(cast: Cast, two: Market) -> None:
    quote = quoted(cast, two, 3, start=HOUR)
    contract = quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=cast.engineer, now=NOW)
    held(cast, planned(cast, two))
    window = Window.objects.get(reservation__contract_id=contract.pk)
    device = window.device
    fleet_edit(edit=edits.device_set("lpu-a", device.name, "failed"), actor=cast.admin, now=NOW + 15 * MINUTE)
    window.refresh_from_db()
    assert window.device != device
    assert Window.objects.filter(state=WindowState.ACTIVE).count() == 1


def test_a_held_candidate_that_waits_and_is_served_keeps_its_number(cast: Cast, market: Market) -> None:
    """By that number dispatch finds which programs work together."""
    plan = planned(cast, market, items=1)
    hold = plan_hold(plan_id=plan.pk, organisation=cast.organisation, actor=cast.engineer, now=NOW, candidate=0)
    standing_file(
        quote_id=hold.quote_id, organisation=cast.organisation, most=hold.quote.worst, actor=cast.engineer, now=NOW
    )
    assert standing_serve(pool="lpu-a", now=NOW) == 1
    assert Contract.objects.get().terms["promises"]["number"] == 0


def test_terms_without_a_number_follow_the_candidate_of_their_programs(cast: Cast, market: Market) -> None:
    """Such as work on another pool than the plan's; a part of what was chosen is no combination."""
    programs = [market.program(cast.organisation, cast.engineer, operations=count * 10**9) for count in (1, 2, 3)]
    pairs = [(programs[0], programs[2]), (programs[1], programs[2])]
    chosen, other = (
        {
            "kind": "cascade",
            "pool": "lpu2-b",
            "programs": [str(one.pk) for one in pair],
            "thresholds": ["0.8"],
            "outputs": ["y"],
            "feasible": True,
            "lines": [{"program": str(one.pk), "executions": 10, "expected": 10} for one in pair],
        }
        for pair in pairs
    )
    plan = Plan.objects.create(
        organisation=cast.organisation,
        title="Digits",
        candidates=[chosen, other],
        chosen=chosen,
        basis={},
        requirements={"items": 10, "klass": "standard"},
        created_by=cast.engineer,
        created_at=NOW,
    )
    for lines, wanted in ((pairs[0], pairs[0]), (pairs[1], pairs[1]), ((programs[0],), None)):
        quote = quote_create(
            organisation=cast.organisation,
            lines=[(one, 10) for one in lines],
            klass="standard",
            pool=market.lpu,
            plan_id=plan.pk,
            actor=cast.engineer,
            now=NOW,
        )
        contract = quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=cast.engineer, now=NOW)
        found = combination_of(contract)
        assert (found and found.programs) == wanted


def test_work_of_a_million_years_makes_no_quote(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer, interval=10**9 * CLOCK, latency=10**9 * CLOCK)
    with pytest.raises(Problem, match=r"The work takes .* of device time, but the window is only"):
        quote_create(
            organisation=cast.organisation,
            lines=[(program, 10**6)],
            klass="standard",
            pool=market.lpu,
            actor=cast.engineer,
            now=NOW,
        )


def test_a_pool_that_no_text_can_name_is_unknown(cast: Cast, market: Market, as_user: Callable[[User], Client]) -> None:
    quote = quoted(cast, market, 1)
    answer = as_user(cast.owner).post(f"/quotes/{quote.pk}/wait", {"most": "5", "pools": "\x00"})
    assert answer.status_code == 422


def test_holding_another_candidate_gives_up_what_is_held_and_holds_that(cast: Cast, market: Market) -> None:
    plan = planned(cast, market, items=1)
    plan.candidates = [*plan.candidates, {**plan.candidates[0], "title": "Another"}]
    plan.save(update_fields=["candidates"])
    asked = {"plan_id": plan.pk, "organisation": cast.organisation, "actor": cast.engineer, "now": NOW}
    first = plan_hold(**asked)
    assert plan_hold(**asked, candidate=0) == first, "the chosen one by its number"
    last = len(plan.candidates) - 1
    second = plan_hold(**asked, candidate=last)
    assert second.quote.document["promises"]["number"] == last
    assert sorted(PlanHold.objects.values_list("state", flat=True)) == ["held", "released"]
    assert Window.objects.filter(state=WindowState.ACTIVE).count() == 1
