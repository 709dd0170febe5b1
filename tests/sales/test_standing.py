"""Work that waits for room: what it is served at, when, before whom, and what becomes of its money."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from apps.accounts.models import Membership, Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.roles import Role
from apps.ledger.models import Hold, HoldState, OutboxRow
from apps.ledger.reconciling import reconcile
from apps.ledger.services import cap_set
from apps.sales.models import Contract, Quote, StandingRequest
from apps.sales.services import (
    contract_end,
    quote_accept,
    quote_create,
    serving,
    standing_file,
    standing_serve,
    standing_serve_all,
    standing_withdraw,
)
from apps.timetable.models import Window, WindowState
from tests.cast import Cast, person
from tests.sales.market import NOW, Market

pytestmark = pytest.mark.django_db

HOUR = 3600 * 10_000  # executions of 90,000 cycles at 900 MHz
UNTIL = NOW + timedelta(hours=5)


def _quote(
    market: Market,
    organisation: Organisation,
    user: User,
    *,
    executions: int = HOUR,
    until: datetime = UNTIL,
    parts: int = 1,
) -> Quote:
    """`parts` programs keep the work in one piece."""
    lines = [(market.program(organisation, user), executions // parts) for _ in range(parts)]
    return quote_create(
        organisation=organisation,
        lines=lines,
        klass="standard",
        pool=market.lpu,
        window=(NOW, until),
        actor=user,
        now=NOW,
    )


def _contract(market: Market, organisation: Organisation, user: User, **asked: int) -> Contract:
    quote = _quote(market, organisation, user, **asked)  # type: ignore[arg-type]
    return quote_accept(quote_id=quote.id, organisation=organisation, actor=user, now=NOW)


def _file(
    quote: Quote, user: User, *, most: Decimal | None = None, until: datetime | None = None, at: datetime = NOW
) -> StandingRequest:
    return standing_file(
        quote_id=quote.id,
        organisation=quote.organisation,
        most=most or quote.worst * 2,
        until=until,
        actor=user,
        now=at,
    )


def _end(contract: Contract, user: User, *, at: datetime = NOW) -> None:
    contract_end(contract_id=contract.id, organisation=contract.organisation, actor=user, now=at)


@pytest.fixture
def full(cast: Cast, market: Market) -> list[Contract]:
    """Five hours of the pool's one device, each sold to the stranger by a contract of its own."""
    work = HOUR - 10  # the first result takes longer than an interval
    return [_contract(market, cast.stranger_organisation, cast.stranger, executions=work) for _ in range(5)]


def test_a_request_waits_with_its_money_set_aside_and_is_served_at_the_price_of_the_day(
    cast: Cast, market: Market, full: list[Contract]
) -> None:
    quote = _quote(market, cast.organisation, cast.engineer, executions=HOUR // 2)
    request = _file(quote, cast.engineer)
    assert Hold.objects.get(contract_id=request.pk).amount == quote.worst * 2
    assert standing_serve(pool="lpu-a", now=NOW) == 0
    request.refresh_from_db()
    assert (request.state, request.reason_kind) == ("waiting", "room")
    _end(full[2], cast.stranger)
    assert standing_serve_all(now=NOW) == 1
    request.refresh_from_db()
    assert (request.state, request.contract and request.contract.net) == ("served", quote.worst)
    assert Hold.objects.get(contract_id=request.pk).state == HoldState.RELEASED
    assert Hold.objects.get(contract_id=request.contract_id).amount == quote.worst
    assert all(one.end <= UNTIL for one in Window.objects.filter(reservation__contract_id=request.contract_id))
    assert OutboxRow.objects.filter(topic="standing.served", payload__request=str(request.pk)).count() == 1
    assert reconcile(cast.organisation.pk).differences == []


def test_a_request_is_never_served_above_its_price_or_after_its_time(cast: Cast, market: Market) -> None:
    quote = _quote(market, cast.organisation, cast.engineer)
    cheap = _file(quote, cast.engineer, most=quote.worst - 1)
    late = _file(_quote(market, cast.organisation, cast.engineer), cast.engineer, until=NOW + timedelta(minutes=30))
    assert standing_serve(pool="lpu-a", now=NOW) == 0
    assert standing_serve_all(now=NOW + timedelta(minutes=30)) == 0
    cheap.refresh_from_db()
    late.refresh_from_db()
    assert (cheap.state, cheap.reason_kind, late.state) == ("waiting", "price", "expired")
    assert Hold.objects.get(contract_id=late.pk).state == HoldState.RELEASED


@pytest.mark.parametrize("lost", ["role", "person", "cap"])
def test_a_request_whose_right_or_money_is_gone_ends_and_gives_its_money_back(
    cast: Cast, market: Market, lost: str
) -> None:
    request = _file(_quote(market, cast.organisation, cast.engineer), cast.engineer)
    if lost == "role":
        Membership.objects.filter(user=cast.engineer).update(role=Role.VIEWER)
    elif lost == "person":
        User.objects.filter(pk=cast.engineer.pk).update(is_active=False)
    else:
        cap_set(organisation=cast.organisation, amount=Decimal("0.01"), currency=request.currency, now=NOW)
    assert standing_serve(pool="lpu-a", now=NOW) == 0
    request.refresh_from_db()
    assert (request.state, request.reason_kind) == ("refused", "spend-cap" if lost == "cap" else "standing-right")
    assert Hold.objects.get(contract_id=request.pk).state == HoldState.RELEASED
    assert not Window.objects.filter(state=WindowState.ACTIVE).exists()


def test_a_failure_of_one_request_does_not_stop_the_others(
    cast: Cast, market: Market, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (
        _file(_quote(market, cast.organisation, cast.engineer, executions=1000), cast.engineer, at=NOW + second)
        for second in (timedelta(0), timedelta(seconds=1))
    )
    accept = serving.quote_accept

    def broken(**given: object) -> Contract:
        contract = accept(**given)  # type: ignore[arg-type]
        if not StandingRequest.objects.exclude(state="waiting").exists() and not broken_once:
            broken_once.append(contract.pk)
            raise RuntimeError("after everything was taken")
        return contract

    broken_once: list[object] = []
    monkeypatch.setattr(serving, "quote_accept", broken)
    assert standing_serve(pool="lpu-a", now=NOW + timedelta(seconds=2)) == 1
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.state, first.reason_kind, second.state) == ("waiting", "internal-error", "served")
    assert Contract.objects.count() == 1
    assert Hold.objects.get(contract_id=first.pk).state == HoldState.PENDING


def test_a_large_request_is_not_passed_for_ever_by_small_ones(cast: Cast, market: Market, full: list[Contract]) -> None:
    large = _file(_quote(market, cast.organisation, cast.engineer, executions=2 * HOUR - 20, parts=2), cast.engineer)
    other = person("Other")
    Membership.objects.create(user=other, organisation=cast.stranger_organisation, role=Role.OWNER)
    later = NOW + timedelta(hours=1, minutes=20)  # a quarter of five hours has passed: the large one is protected
    small = [
        _file(_quote(market, cast.stranger_organisation, other, executions=HOUR // 2, parts=2), other, at=later)
        for _ in range(3)
    ]
    _end(full[3], cast.stranger, at=later)
    standing_serve(pool="lpu-a", now=later)
    assert not StandingRequest.objects.filter(state="served").exists()  # the one free hour is claimed
    assert not Window.objects.filter(reservation__klass="kept").exists()
    _end(full[1], cast.stranger, at=later)
    assert standing_serve(pool="lpu-a", now=later) == 1  # forty minutes elsewhere: for a small one
    _end(full[2], cast.stranger, at=later)
    standing_serve(pool="lpu-a", now=later)
    large.refresh_from_db()
    assert large.state == "served"
    assert StandingRequest.objects.filter(pk__in=[one.pk for one in small], state="served").count() >= 1


def test_withdrawing_gives_the_money_back_once(cast: Cast, market: Market, full: list[Contract]) -> None:
    request = _file(_quote(market, cast.organisation, cast.engineer), cast.engineer)
    for _ in range(2):
        standing_withdraw(request_id=request.pk, organisation=cast.organisation, actor=cast.engineer, now=NOW)
    assert Hold.objects.get(contract_id=request.pk).state == HoldState.RELEASED
    _end(full[0], cast.stranger)
    assert standing_serve(pool="lpu-a", now=NOW) == 0


def test_filing_needs_the_money(cast: Cast, market: Market) -> None:
    quote = _quote(market, cast.organisation, cast.engineer)
    cap_set(organisation=cast.organisation, amount=quote.worst, currency=quote.currency, now=NOW)
    with pytest.raises(Problem) as refused:
        _file(quote, cast.engineer)
    assert refused.value.kind == "spend-cap"
    assert not StandingRequest.objects.exists()


def test_the_work_of_a_quote_is_bought_once(cast: Cast, market: Market, full: list[Contract]) -> None:
    quote = _quote(market, cast.organisation, cast.engineer, executions=HOUR // 2)
    request = _file(quote, cast.engineer)
    for buy in (lambda: _file(quote, cast.engineer), lambda: _accepted(quote)):
        with pytest.raises(
            Problem, match=f"Standing request {request.number} is already waiting to buy this work"
        ) as refused:
            buy()
        assert refused.value.kind == "quote-waits"
    _end(full[2], cast.stranger)
    assert standing_serve_all(now=NOW) == 1
    for buy in (lambda: _file(quote, cast.engineer), lambda: _accepted(quote)):
        with pytest.raises(Problem, match="already bought this work") as refused:
            buy()
        assert refused.value.kind == "quote-accepted"
    assert Contract.objects.filter(organisation=cast.organisation).count() == 1


def test_a_quote_whose_request_was_withdrawn_can_be_bought(cast: Cast, market: Market) -> None:
    quote = _quote(market, cast.organisation, cast.engineer)
    request = _file(quote, cast.engineer)
    standing_withdraw(request_id=request.pk, organisation=cast.organisation, actor=cast.engineer, now=NOW)
    assert _accepted(quote).net == quote.worst


def _accepted(quote: Quote) -> Contract:
    return quote_accept(quote_id=quote.pk, organisation=quote.organisation, actor=None, now=NOW)
