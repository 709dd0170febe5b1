"""Commitments: a least spend in every month, for a factor on what is bought under it, and on no more."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.ledger.models import UsageRow
from apps.pricing.rating import Rating, exact_sum
from apps.pricing.services import pricebook_publish
from apps.sales.commitments import (
    commitment_at,
    commitment_left,
    commitment_months,
    commitments_of,
    commitments_paused,
    is_priced,
    months_after,
    shortfalls_ended,
)
from apps.sales.models import Commitment, Contract, Quote
from apps.sales.services import QuoteLine, commitment_enter, contract_end, quote_accept, quote_create
from tests.cast import Cast
from tests.pricing.rating.books import document
from tests.sales.market import NOW, Market
from tests.sales.test_contracts import run as one_run
from tests.sales.test_forms import run

SECOND = timedelta(seconds=1)
database = pytest.mark.django_db


def _enter(cast: Cast, kind: str = "year", minimum: str = "100", *, at: datetime = NOW) -> Commitment:
    return commitment_enter(
        organisation=cast.organisation, kind=kind, minimum=Decimal(minimum), actor=cast.owner, now=at
    )


def _quote(cast: Cast, market: Market, program: Any, executions: int, *, at: datetime = NOW, **asked: Any) -> Quote:
    return quote_create(
        organisation=cast.organisation,
        lines=[QuoteLine(program, executions)],
        klass="standard",
        pool=market.lpu,
        window=(at, at + timedelta(days=7)),
        actor=None,
        now=at,
        **asked,
    )


def _accept(cast: Cast, quote: Quote, *, at: datetime = NOW) -> Contract:
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=at)


@database
def test_what_is_bought_under_a_commitment_carries_its_factor_to_the_usage(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    assert _quote(cast, market, program, 1_000_000).worst == Decimal("5.632")
    commitment = _enter(cast)
    quote = _quote(cast, market, program, 1_000_000)
    assert quote.worst == Decimal("3.9424")  # x 0.7
    assert any("under a commitment (year)" in sentence for sentence in quote.document["assumptions"])
    terms = quote.document["lines"][0]["rating"]["terms"]
    assert (terms["commitment"], terms["commitment_factor"]) == ("year", "0.7")
    contract = _accept(cast, quote)
    assert contract.commitment == commitment
    assert run(contract, program, 1_000_000) == quote.worst
    assert commitment_left(commitment) == Decimal("1196.0576")


@database
def test_the_factor_was_agreed_and_a_later_book_does_not_raise_it(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    _enter(cast)

    def dearer(book: dict[str, Any]) -> None:
        book["version"], book["commitments"]["year"], book["notice_days"] = 2, "0.95", 0

    later = NOW + timedelta(days=40)
    pricebook_publish(document=document(dearer), effective_from=later, now=NOW)
    quote = _quote(cast, market, program, 1_000_000, at=later)
    assert (quote.document["book"]["version"], quote.worst) == (2, Decimal("3.9424"))
    rating = quote.document["lines"][0]["rating"]
    assert Rating.from_json(rating).to_json() == rating


@database
def test_the_factor_holds_for_as_much_as_was_promised_and_no_more(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    commitment = _enter(cast, "month", "10")
    first, second = (_quote(cast, market, program, 1_500_000) for _ in range(2))
    assert first.worst == second.worst == Decimal("7.6032")  # x 0.9
    contract = _accept(cast, first)
    with pytest.raises(Problem, match=r"has 2\.3968 EUR left"):
        _accept(cast, second)
    beyond = _quote(cast, market, program, 1_500_000)
    assert (beyond.worst, "commitment" in beyond.document) == (Decimal("8.448"), False)
    assert _accept(cast, beyond).commitment is None
    contract_end(contract_id=contract.id, organisation=cast.organisation, actor=cast.owner, now=NOW)
    assert commitment_left(commitment) == 10
    over = _quote(cast, market, program, 1000, at=NOW + timedelta(days=25))  # its window ends after the commitment
    assert "commitment" not in over.document


@database
def test_an_amendment_gives_the_rest_back_to_its_commitment(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    commitment = _enter(cast, "month", "10")
    old = _accept(cast, _quote(cast, market, program, 1_500_000))
    new = _accept(cast, _quote(cast, market, program, 1_900_000, amends=old))
    assert new.commitment == commitment
    assert commitment_left(commitment) == Decimal("10") - Decimal("9.63072")


@database
def test_a_month_that_begins_within_a_quarter_of_an_hour_counts_usage_to_the_microsecond(
    cast: Cast, market: Market
) -> None:
    """Whole quarters are kept as sums, the rows at both ends of a month are not among them."""
    program, micro = market.program(cast.organisation, cast.engineer), timedelta(microseconds=1)
    start = NOW + timedelta(minutes=7, seconds=13)
    commitment, following = _enter(cast, "year", "1", at=start), months_after(start, 1)
    for begins, instants in (
        (start, [start, start + micro, start + timedelta(minutes=8), start + timedelta(days=3)]),
        (
            following - timedelta(days=3),
            [following - timedelta(minutes=9), following - micro, following, following + timedelta(minutes=20)],
        ),
    ):
        contract = _accept(cast, _quote(cast, market, program, 10, at=begins), at=begins)
        for at in instants:
            one_run(contract, 1, now=at)
    first, second, third = commitment_months(commitment)[:3]
    each = UsageRow.objects.first().amount  # type: ignore[union-attr]
    assert (first.used, second.used, third.used) == (6 * each, 2 * each, 0)


@database
def test_what_is_missing_in_a_month_that_has_ended_is_named_once(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    commitment = _enter(cast)
    contract = _accept(cast, _quote(cast, market, program, 10_000_000))
    run(contract, program, 10_000_000)
    assert shortfalls_ended(cast.organisation, currency="EUR", until=NOW + timedelta(days=29)) == []
    until = months_after(NOW.replace(microsecond=0), 2)
    first, second = shortfalls_ended(cast.organisation, currency="EUR", until=until)
    assert (first.used, first.missing, second.missing) == (Decimal("39.424"), Decimal("60.576"), Decimal("100"))
    assert first.key == f"commitment:{commitment.id}:2026-11-24"
    assert first.basis["used"] == "39.424"
    assert "from 2026-11-24 to 2026-12-24, used" in first.sentence
    assert shortfalls_ended(cast.organisation, currency="USD", until=until) == []
    assert shortfalls_ended(cast.stranger_organisation, currency="EUR", until=until) == []
    assert exact_sum(month.used for month in commitment_months(commitment)) == Decimal("39.424")


@database
@pytest.mark.parametrize(
    ("kind", "minimum", "said"),
    [
        ("none", "10", "There is no commitment"),
        ("decade", "10", "There is no commitment"),
        ("year", "0", "Enter an amount from"),
        ("year", "-5", "Enter an amount from"),
        ("year", "1E+10", "Enter an amount from"),
        ("year", "0.001", "EUR has 2 decimal places; write 0.01"),
        ("year", "NaN", "EUR has 2 decimal places"),
    ],
)
def test_what_cannot_be_promised_is_refused(cast: Cast, market: Market, kind: str, minimum: str, said: str) -> None:
    with pytest.raises(Problem, match=said):
        _enter(cast, kind, minimum)


@database
def test_one_commitment_holds_at_a_time_and_never_changes(cast: Cast, market: Market) -> None:
    commitment = _enter(cast, "month")
    with pytest.raises(Problem, match="ends at 2026-12-24"):
        _enter(cast)
    with pytest.raises(IntegrityError), transaction.atomic():
        Commitment.objects.filter(pk=commitment.pk).update(minimum=1)
    _enter(cast, at=commitment.ends_at)
    assert commitments_of(cast.organisation).count() == 2


@database
def test_a_commitment_pauses_while_nothing_is_priced_in_its_currency(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    euros, begins = _enter(cast), NOW + timedelta(days=40)
    back = begins + timedelta(days=40)

    def dinars(book: dict[str, Any]) -> None:
        book |= {"version": 2, "currency": {"code": "KWD", "exponent": 3}, "notice_days": 0}

    pricebook_publish(document=document(dinars), effective_from=begins, now=NOW)
    quote = _quote(cast, market, program, 1_000_000, at=begins)
    assert "commitment" not in quote.document
    other = _enter(cast, "year", "1.5", at=begins)
    assert (other.currency, commitment_at(cast.organisation, at=begins, currency="EUR")) == ("KWD", euros)
    assert commitments_paused(cast.organisation, at=begins) == [euros]
    with pytest.raises(Problem, match="ends at"):
        _enter(cast, at=begins)
    pricebook_publish(document=document(lambda book: book.update(version=3)), effective_from=back, now=begins)
    assert commitments_paused(cast.organisation, at=back) == [other]
    months = commitment_months(euros)
    assert [month.priced for month in months[:5]] == [True, False, False, True, True]  # 24 November to 24 December, ...
    until = months[4].end
    assert [one.start for one in shortfalls_ended(cast.organisation, currency="EUR", until=until)] == [
        months[number].start for number in (0, 3, 4)
    ]
    assert [one.missing for one in months[1:3]] == [0, 0]
    assert [one.number for one in shortfalls_ended(cast.organisation, currency="KWD", until=until)] == [1]


@database
def test_the_page_says_that_a_commitment_is_paused_and_takes_another(
    cast: Cast, market: Market, as_user: Callable[[User], Client]
) -> None:
    now = timezone.now()
    _enter(cast, at=now - timedelta(days=20))

    def dinars(book: dict[str, Any]) -> None:
        book |= {"version": 2, "currency": {"code": "KWD", "exponent": 3}}

    pricebook_publish(document=document(dinars), effective_from=now - timedelta(days=10), now=now - timedelta(days=100))
    client = as_user(cast.billing)
    page = client.get("/commitments").content.decode()
    assert "is paused: no price book in EUR is in force" in page
    assert "New quotes use the commitment" not in page
    entered = client.post("/commitments", {"kind": "year", "minimum": "1.5"}, follow=True).content.decode()
    assert "New quotes use the commitment" in entered
    assert "is paused" in entered
    assert client.get("/portal").status_code == 200
    assert Commitment.objects.count() == 2


@given(
    st.integers(0, 30_000_000).map(lambda seconds: datetime(2026, 1, 1, tzinfo=UTC) + seconds * SECOND),
    st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=12),
    st.integers(0, 300),
    st.integers(1, 60),
)
def test_a_month_is_priced_where_every_instant_of_it_is(
    first: datetime, books: list[tuple[int, bool]], begins: int, length: int
) -> None:
    """Books follow each other; those that are marked are in the currency, and the last goes on."""
    marks = [first + timedelta(days=sum(days for days, _ in books[:number])) for number in range(len(books))]
    ends: list[datetime | None] = [*marks[1:], None]
    ranges = [(mark, end) for mark, end, (_, ours) in zip(marks, ends, books, strict=True) if ours]
    start = first + timedelta(days=begins)
    days = [start + timedelta(days=day) for day in range(length)]
    known = all(any(mark <= day and (end is None or day < end) for mark, end in ranges) for day in days)
    assert is_priced(ranges, start, start + timedelta(days=length)) == known


@given(
    start=st.integers(0, 20 * 365 * 86_400).map(lambda seconds: datetime(2020, 1, 1, tzinfo=UTC) + seconds * SECOND),
    months=st.integers(1, 36),
)
def test_months_follow_each_other_without_gap_or_overlap(start: datetime, months: int) -> None:
    marks = [months_after(start, number) for number in range(months + 1)]
    lengths = [(right - left).days for left, right in pairwise(marks)]
    assert all(28 <= length <= 31 for length in lengths)
    assert (marks[-1].year * 12 + marks[-1].month) - (start.year * 12 + start.month) == months


@database
def test_the_page_and_the_api_enter_and_show_it(
    cast: Cast, market: Market, as_user: Callable[[User], Client], as_token: Callable[..., Client]
) -> None:
    client = as_user(cast.billing)
    assert "Make a commitment" in client.get("/commitments").content.decode()
    for kind, minimum in (("\x00", "5"), ("year", "<b>"), ("year", "1e5"), ("year", ""), ("year", "٣")):
        answer = client.post("/commitments", {"kind": kind, "minimum": minimum})
        assert answer.status_code == 422, (kind, minimum)
        assert b"<b>" not in answer.content
    page = client.post("/commitments", {"kind": "three_years", "minimum": "1,000.50"}, follow=True).content.decode()
    assert "Three years" in page
    assert "36,018.00" in page
    api = as_token(cast.owner, cast.organisation, Scope.READ, Scope.BUY)
    (known,) = api.get("/api/v1/commitments").json()["results"]
    assert (known["minimum"], known["factor"]) == ("1000.5", "0.5")
    detail = api.get(f"/api/v1/commitments/{known['id']}").json()
    assert (len(detail["months"]), detail["left"]) == (36, "36018")
    for body in ({"kind": "year", "minimum": "1"}, {"kind": "x", "minimum": "1"}, {"kind": "year", "minimum": "-1"}):
        refused = api.post("/api/v1/commitments", body, content_type="application/json")
        assert refused.status_code in {409, 422}
        assert refused["Content-Type"] == "application/problem+json"
    assert "An owner or a billing person" not in as_user(cast.viewer).get("/commitments").content.decode()
    assert timezone.now() < Commitment.objects.get().ends_at
