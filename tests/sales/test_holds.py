"""Holding a plan's capacity: kept for ten minutes, sold without being given up, free by itself afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from apps.accounts.models import AuditEntry, User
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.fleet.models import Device, DeviceState
from apps.planner.models import Plan
from apps.planner.services import plan_create
from apps.planner.solver import Requirements
from apps.pricing.services import pricebook_publish
from apps.reports.selectors import capacity
from apps.sales.models import Contract, PlanHold, Quote
from apps.sales.services import (
    plan_hold,
    plan_hold_release,
    plan_holds_end_due,
    quote_accept,
    quote_create,
    standing_file,
    standing_serve,
    waiting,
)
from apps.timetable.models import Reservation, Window, WindowState
from apps.timetable.selectors import windows_of
from apps.timetable.services import CapacityTaken
from tests.cast import Cast
from tests.pricing.rating.books import document
from tests.sales.market import CLOCK, NOW, Market, open_market

DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
UNTIL = NOW + timedelta(hours=2)


def planned(cast: Cast, market: Market, *, items: int = 6) -> Plan:
    """Items of a quarter of an hour each on one device, done within two hours: one and a half of them taken."""
    program = market.program(
        cast.organisation, cast.engineer, interval=900 * CLOCK, latency=900 * CLOCK, name=f"m{uuid4().hex}"
    )
    return plan_create(
        subject=program.model_version, requirements=Requirements(items), actor=cast.engineer, now=NOW, until=UNTIL
    )


def held(cast: Cast, plan: Plan, *, at: timedelta = timedelta()) -> PlanHold:
    return plan_hold(plan_id=plan.pk, organisation=cast.organisation, actor=cast.engineer, now=NOW + at)


def rival(cast: Cast, market: Market, *, at: timedelta = timedelta()) -> Callable[[], Contract]:
    """Somebody else who wants an hour and a half of the same two hours."""
    program = market.program(cast.stranger_organisation, cast.stranger, interval=900 * CLOCK, latency=900 * CLOCK)
    quote = quote_create(
        organisation=cast.stranger_organisation,
        lines=[(program, 6)],
        klass="standard",
        pool=market.lpu,
        window=(NOW, UNTIL),
        actor=None,
        now=NOW + at,
    )
    return lambda: quote_accept(quote_id=quote.pk, organisation=cast.stranger_organisation, actor=None, now=NOW + at)


def accepted(cast: Cast, quote: Quote, *, at: timedelta) -> Contract:
    return quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=cast.owner, now=NOW + at)


def spans(rows: list[Window]) -> list[tuple[Any, Any, Any]]:
    return sorted((one.device_id, one.start, one.end) for one in rows)


@pytest.mark.django_db
@pytest.mark.parametrize("after", [timedelta(), 5 * MINUTE, 10 * MINUTE - timedelta(microseconds=1)])
def test_what_is_held_is_sold_as_it_is_at_the_price_of_the_plan(cast: Cast, market: Market, after: timedelta) -> None:
    plan = planned(cast, market)
    assert plan.chosen is not None
    hold = held(cast, plan)
    windows = spans(list(Window.objects.all()))
    assert all(start >= hold.held_until for _, start, _ in windows), "none of it passes while somebody decides"
    with pytest.raises(CapacityTaken):
        rival(cast, market)()
    pricebook_publish(
        document=document(lambda raw: raw.update(version=2)), effective_from=NOW + MINUTE, now=NOW - 31 * DAY
    )
    contract = accepted(cast, hold.quote, at=after)
    assert contract.pk == hold.contract_id
    assert contract.net == Decimal(plan.chosen["price"])
    assert spans(windows_of(contract.pk)) == windows
    assert Reservation.objects.get().held_until is None
    assert held_states() == ["accepted"]


def held_states() -> list[str]:
    return sorted(PlanHold.objects.values_list("state", flat=True))


@pytest.mark.django_db
def test_a_hold_that_is_over_is_in_nobodys_way_whether_or_not_a_sweep_came_by(cast: Cast, market: Market) -> None:
    plan = planned(cast, market)
    hold = held(cast, plan)
    at = 10 * MINUTE
    rival(cast, market, at=at)()
    assert Window.objects.filter(reservation=hold.reservation, state=WindowState.ACTIVE).count() == 0
    with pytest.raises(CapacityTaken, match=r"Since the plan was made: 1\sh 30\smin of lpu-a were reserved") as refused:
        accepted(cast, hold.quote, at=at)
    assert [one["changed"] for one in refused.value.errors if "changed" in one] == ["capacity"]
    assert plan_holds_end_due(now=NOW + at) == 1
    assert held_states() == ["expired"]
    assert plan_holds_end_due(now=NOW + at) == 0


@pytest.mark.django_db
def test_an_expired_quote_is_accepted_where_there_is_room_still(cast: Cast, market: Market) -> None:
    hold = held(cast, planned(cast, market))
    contract = accepted(cast, hold.quote, at=11 * MINUTE)
    assert contract.pk != hold.contract_id
    assert held_states() == ["expired"]
    assert Window.objects.filter(state=WindowState.ACTIVE).count() == 1


@pytest.mark.django_db
def test_a_hold_is_released_by_hand_and_held_again(cast: Cast, market: Market) -> None:
    plan = planned(cast, market)
    first = held(cast, plan)
    assert held(cast, plan, at=MINUTE) == first, "one for a plan"
    for _ in range(2):
        plan_hold_release(plan_id=plan.pk, organisation=cast.organisation, actor=cast.engineer, now=NOW + MINUTE)
    rival(cast, market, at=MINUTE)()
    with pytest.raises(CapacityTaken, match="were reserved"):
        held(cast, plan, at=MINUTE)
    assert held_states() == ["released"]
    actions = AuditEntry.objects.filter(action__startswith="plan.hold").values_list("action", flat=True)
    assert sorted(actions) == ["plan.hold", "plan.hold.release"]


@pytest.mark.django_db
def test_another_quote_of_the_plan_takes_the_place_of_what_is_held(cast: Cast, market: Market) -> None:
    """What is held is for one contract; asking for a part of it does not meet its own hold."""
    plan = planned(cast, market)
    held(cast, plan)
    program = plan.model_version.programs.get() if plan.model_version else None
    assert program is not None
    less = quote_create(
        organisation=cast.organisation,
        lines=[(program, 5)],
        klass="standard",
        pool=market.lpu,
        window=(NOW, UNTIL),
        plan_id=plan.pk,
        actor=None,
        now=NOW,
    )
    accepted(cast, less, at=MINUTE)
    assert held_states() == ["released"]


@pytest.mark.django_db
def test_an_organisation_holds_so_much_and_no_more(cast: Cast, market: Market, settings: Any) -> None:
    settings.HOLDS_MOST = 1
    first, second = planned(cast, market, items=1), planned(cast, market, items=1)
    held(cast, first)
    with pytest.raises(Problem, match="holds capacity for 1 plans; the maximum is 1") as refused:
        held(cast, second)
    assert refused.value.kind == "hold-limit"
    settings.HOLDS_MOST, settings.HOLD_SECONDS_MOST = 5, 1799
    with pytest.raises(Problem, match=r"may hold at most 29\smin 59\ss of device time at once"):
        held(cast, second)
    settings.HOLD_SECONDS_MOST = 1800
    held(cast, second)
    assert Quote.objects.count() == 2, "a refused hold leaves no quote behind"


@pytest.mark.django_db
def test_a_plan_whose_price_rose_is_not_held_and_the_book_is_named(cast: Cast, market: Market) -> None:
    def dearer(raw: dict[str, Any]) -> None:
        raw["version"], raw["prices"]["lpu"]["float32"] = 2, "9"

    plan = planned(cast, market)
    pricebook_publish(document=document(dearer), effective_from=NOW + MINUTE, now=NOW - 31 * DAY)
    with pytest.raises(Problem, match="Price book 2 replaced price book 1") as refused:
        held(cast, plan, at=2 * MINUTE)
    assert refused.value.kind == "plan-changed"
    assert not Window.objects.exists()


@pytest.mark.django_db
def test_held_time_is_not_sold_in_reports_and_not_free(cast: Cast, market: Market) -> None:
    held(cast, planned(cast, market))
    (load,) = (one for one in capacity(day=NOW, now=NOW).pools if one.pool == market.lpu)
    assert sum(cell.sold for cell in load.cells) == 0
    assert load.free[0].start < UNTIL
    assert all(slot.start >= NOW + 100 * MINUTE or slot.end <= NOW + 10 * MINUTE for slot in load.free)


@pytest.mark.django_db
def test_a_device_that_leaves_ends_what_is_held_on_it_and_is_named(cast: Cast, market: Market) -> None:
    plan = planned(cast, market)
    hold = held(cast, plan)
    Device.objects.filter(pool=market.lpu).update(state=DeviceState.FAILED)
    Device.objects.create(pool=market.lpu, name="another")
    Reservation.objects.update(state="released")
    Window.objects.update(state="released")
    rival(cast, market)()
    with pytest.raises(CapacityTaken, match="lpu-a-0 of lpu-a left service"):
        accepted(cast, hold.quote, at=MINUTE)


def together(*works: Callable[[], Any]) -> list[str]:
    """Each on a connection of its own, let go at once; what became of each, in no order."""
    outcomes: list[str] = []
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], Any]) -> None:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=60)
            work()
            outcomes.append("got")
        except CapacityTaken:
            outcomes.append("taken")
        finally:
            connection.close()

    crowd = [threading.Thread(target=run, args=(work,)) for work in works]
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    return sorted(outcomes)


@pytest.mark.django_db(transaction=True)
def test_of_a_hold_and_a_sale_at_once_one_gets_the_time(cast: Cast) -> None:
    market = open_market()
    plan, buy = planned(cast, market), rival(cast, market)
    assert together(lambda: held(cast, plan), buy) == ["got", "taken"]
    assert Window.objects.filter(state=WindowState.ACTIVE).count() == 1


@pytest.mark.django_db(transaction=True)
def test_an_acceptance_in_time_and_a_sale_after_the_end_share_nothing(cast: Cast) -> None:
    """Both at once, with the clocks on both sides of the end: whoever comes first has it, and the other is told."""
    market = open_market()
    hold, buy = held(cast, planned(cast, market)), rival(cast, market, at=10 * MINUTE)
    last = 10 * MINUTE - timedelta(microseconds=1)
    assert together(lambda: accepted(cast, hold.quote, at=last), buy) == ["got", "taken"]
    assert Contract.objects.count() == Window.objects.filter(state=WindowState.ACTIVE).count() == 1


@pytest.mark.django_db
def test_time_that_a_hold_gives_back_is_offered_to_requests_that_wait(
    cast: Cast, market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered: list[str] = []
    monkeypatch.setattr(waiting, "task_send_on_commit", lambda _name, **how: offered.append(how["pool"]))
    hold = held(cast, planned(cast, market))
    program = market.program(cast.stranger_organisation, cast.stranger, interval=900 * CLOCK, latency=900 * CLOCK)
    quote = quote_create(
        organisation=cast.stranger_organisation,
        lines=[(program, 6)],
        klass="standard",
        pool=market.lpu,
        window=(NOW, UNTIL),
        actor=cast.stranger,
        now=NOW,
    )
    standing_file(
        quote_id=quote.pk, organisation=cast.stranger_organisation, most=quote.worst * 2, actor=cast.stranger, now=NOW
    )
    assert standing_serve(pool="lpu-a", now=NOW) == 0
    offered.clear()
    plan_hold_release(plan_id=hold.plan_id, organisation=cast.organisation, actor=cast.engineer, now=NOW)
    assert offered == ["lpu-a"]
    assert standing_serve(pool="lpu-a", now=NOW) == 1


@pytest.mark.django_db
def test_a_plan_is_held_and_released_on_its_page_and_over_the_api(
    cast: Cast, market: Market, as_user: Callable[[User], Client], as_token: Callable[..., Client]
) -> None:
    now = timezone.now()
    program = market.program(cast.organisation, cast.engineer)
    plan = plan_create(subject=program.model_version, requirements=Requirements(1000), actor=cast.engineer, now=now)
    page = as_user(cast.engineer)
    assert "Hold for ten minutes" in page.get(f"/plans/{plan.pk}").content.decode()
    assert page.post(f"/plans/{plan.pk}/hold", follow=True).status_code == 200
    shown = page.get(f"/plans/{plan.pk}/hold").content.decode()
    assert "Accept the quote" in shown
    assert "data-countdown" in shown
    api = as_token(cast.owner, cast.organisation, Scope.BUILD)
    again = api.post(
        f"/api/v1/plans/{plan.pk}/hold", {}, content_type="application/json", headers={"Idempotency-Key": "1"}
    )
    assert (again.status_code, again.json()["state"], len(again.json()["windows"])) == (201, "held", 1)
    assert api.delete(f"/api/v1/plans/{plan.pk}/hold").json()["state"] == "released"
    page.post(f"/plans/{plan.pk}/hold")
    assert page.post(f"/plans/{plan.pk}/hold/release", follow=True).status_code == 200
    assert "The last hold ended early" in page.get(f"/plans/{plan.pk}/hold").content.decode()
