from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction

from apps.accounts.models import AuditEntry
from apps.accounts.problems import Problem
from apps.ledger.models import Hold
from apps.ledger.services import cap_set
from apps.pricing.rating import digest_of
from apps.sales.models import Contract, ContractLine, ContractState, Quote, QuoteState
from apps.sales.services import QuoteLine, contract_close, quote_accept, quote_create
from apps.timetable.models import Refusal, Reservation, Window
from apps.timetable.services import CapacityTaken
from tests.cast import Cast
from tests.pricing.rating.books import book
from tests.sales.market import NOW, Market

pytestmark = pytest.mark.django_db

HOUR = 3600 * 10_000  # executions of 90,000 cycles at 900 MHz


def _quote(
    cast: Cast, market: Market, *, executions: int = 1000, klass: str = "standard", hours: float = 24 * 7
) -> Quote:
    program = market.program(cast.organisation, cast.engineer)
    return quote_create(
        organisation=cast.organisation,
        lines=[(program, executions)],
        klass=klass,
        pool=market.lpu,
        window=(NOW, NOW + timedelta(hours=hours)),
        actor=cast.engineer,
        now=NOW,
    )


def _accept(cast: Cast, quote: Quote, *, after: timedelta = timedelta(0)) -> Contract:
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=NOW + after)


def test_accepting_takes_capacity_and_money_and_freezes_the_terms(cast: Cast, market: Market) -> None:
    quote = _quote(cast, market)
    contract = _accept(cast, quote)
    reservation = Reservation.objects.get(contract_id=contract.id)
    hold = Hold.objects.get(contract_id=contract.id)
    assert reservation.id == contract.reservation_id
    assert hold.amount == quote.worst == contract.net
    assert contract.terms["lines"] == quote.document["lines"]
    assert digest_of(contract.terms) == contract.terms_digest
    assert [(line.executions, line.taken) for line in contract.lines.all()] == [(1000, 0)]
    quote.refresh_from_db()
    assert quote.state == "accepted"
    assert AuditEntry.objects.filter(action="quote.accept").count() == 1


@pytest.mark.parametrize(
    ("klass", "start_hour", "end"), [("off_peak", 20, None), ("batch", 10, 24), ("priority", 10, 1)]
)
def test_a_class_keeps_its_promise(cast: Cast, market: Market, klass: str, start_hour: int, end: int | None) -> None:
    contract = _accept(cast, _quote(cast, market, klass=klass))
    window = Window.objects.get(reservation__contract_id=contract.id)
    assert window.start.hour == start_hour
    if end is not None:
        assert window.end <= NOW + timedelta(hours=end)


def test_priority_that_cannot_start_within_a_quarter_of_an_hour_is_not_sold(cast: Cast, market: Market) -> None:
    waiting = _quote(cast, market, klass="priority")
    _accept(cast, _quote(cast, market, executions=HOUR))
    with pytest.raises(CapacityTaken):
        _accept(cast, waiting)


@pytest.mark.parametrize("altered", ["a line", "no window", "the sum"])
def test_a_quote_altered_behind_our_back_is_refused_and_takes_nothing(cast: Cast, market: Market, altered: str) -> None:
    quote = _quote(cast, market)
    document = dict(quote.document)
    if altered == "a line":
        document["lines"] = [{**document["lines"][0], "executions": 1}]
    elif altered == "no window":
        del document["window"]
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # no trigger keeps the row as it is
        if altered == "the sum":
            Quote.objects.filter(pk=quote.pk).update(worst=quote.worst - 1, expected=quote.expected - 1)
        else:
            Quote.objects.filter(pk=quote.pk).update(document=document)
        cursor.execute("SET session_replication_role = origin")
    with pytest.raises(Problem) as refused:
        _accept(cast, quote)
    assert (refused.value.status, refused.value.kind) == (409, "quote-altered")
    assert not Contract.objects.exists()
    assert not Hold.objects.exists()
    assert not Reservation.objects.exists()


def test_a_quote_is_accepted_once(cast: Cast, market: Market) -> None:
    quote = _quote(cast, market)
    contract = _accept(cast, quote)
    with pytest.raises(Problem) as refusal:
        _accept(cast, quote)
    assert refusal.value.kind == "quote-accepted"
    assert str(contract.id) in refusal.value.detail
    assert Hold.objects.count() == Reservation.objects.count() == 1


def test_the_price_is_locked_until_the_quote_expires(cast: Cast, market: Market) -> None:
    quote = _quote(cast, market)
    with pytest.raises(Problem) as refusal:
        _accept(cast, quote, after=timedelta(days=1))
    assert refusal.value.kind == "quote-expired"
    assert _accept(cast, quote, after=timedelta(hours=23, minutes=59)).net == quote.worst


def test_a_quote_whose_window_has_passed_is_not_accepted(cast: Cast, market: Market) -> None:
    with pytest.raises(Problem, match="window has passed"):
        _accept(cast, _quote(cast, market, hours=1), after=timedelta(hours=1))


def test_capacity_that_is_gone_takes_nothing_and_says_where_there_is_some(cast: Cast, market: Market) -> None:
    first, second = (_quote(cast, market, executions=HOUR, hours=1.5) for _ in range(2))
    _accept(cast, first)
    with pytest.raises(CapacityTaken) as refusal:
        _accept(cast, second)
    assert refusal.value.alternatives
    assert Contract.objects.count() == Hold.objects.count() == Reservation.objects.count() == 1
    said = Refusal.objects.get()
    assert (said.pool, said.reason) == (market.lpu, refusal.value.detail)


def test_a_cap_that_is_reached_takes_no_capacity(cast: Cast, market: Market) -> None:
    quote = _quote(cast, market)
    cap_set(organisation=cast.organisation, amount=quote.worst / 2, currency="EUR", now=NOW)
    with pytest.raises(Problem) as refusal:
        _accept(cast, quote)
    assert refusal.value.kind == "spend-cap"
    assert not Window.objects.exists()
    assert not Contract.objects.exists()


def test_a_stranger_cannot_accept(cast: Cast, market: Market) -> None:
    quote = _quote(cast, market)
    with pytest.raises(Quote.DoesNotExist):
        quote_accept(quote_id=quote.id, organisation=cast.stranger_organisation, actor=cast.stranger, now=NOW)
    with pytest.raises(Quote.DoesNotExist):
        quote_accept(quote_id=uuid4(), organisation=cast.organisation, actor=cast.owner, now=NOW)


def test_work_that_fits_in_no_single_window_is_cut_between_executions(cast: Cast, market: Market) -> None:
    """Fifteen hours of off-peak work: no night is that long, two are."""
    quote = _quote(cast, market, executions=15 * HOUR, klass="off_peak", hours=48)
    assert len(quote.document["reservation"]) == 2
    contract = _accept(cast, quote)
    windows = Window.objects.filter(reservation__contract_id=contract.id).order_by("period")
    assert [one.start.hour for one in windows] == [20, 20]
    tariff = book().tariff
    assert all(tariff.intervals(one.start, one.end) == [(one.start, one.end)] for one in windows)
    total = sum((one.end - one.start for one in windows), timedelta())
    assert timedelta(hours=15) <= total < timedelta(hours=15, seconds=1)


def test_a_cascade_reserves_and_holds_its_worst_case(cast: Cast, market: Market) -> None:
    small, large = (market.program(cast.organisation, cast.engineer, operations=n) for n in (10**9, 10**12))
    quote = quote_create(
        organisation=cast.organisation,
        lines=[QuoteLine(small, 1000), QuoteLine(large, 1000, 120)],
        klass="standard",
        pool=market.lpu,
        actor=None,
        now=NOW,
    )
    contract = _accept(cast, quote)
    assert [line.executions for line in contract.lines.all()] == [1000, 1000]
    assert Hold.objects.get().amount == quote.worst


def test_the_database_refuses_to_change_what_was_agreed(cast: Cast, market: Market) -> None:
    contract = _accept(cast, _quote(cast, market))
    with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
        Contract.objects.filter(pk=contract.pk).update(terms={})
    with pytest.raises(IntegrityError, match="never changes"), transaction.atomic():
        ContractLine.objects.update(executions=2000)
    with pytest.raises(IntegrityError, match="contractline_within_volume"), transaction.atomic():
        ContractLine.objects.update(taken=1001)
    with pytest.raises(IntegrityError, match="is accepted and stays as it is"), transaction.atomic():
        Quote.objects.update(state=QuoteState.OPEN)
    assert contract_close(contract_id=contract.id, now=contract.ends_at).state == ContractState.ENDED
    for change in ({"state": ContractState.ACTIVE}, {"state": ContractState.USED}, {"closed_at": NOW}):
        with pytest.raises(IntegrityError, match="is ended and stays as it is"), transaction.atomic():
            Contract.objects.update(**change)
