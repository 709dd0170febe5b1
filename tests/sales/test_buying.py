"""What an organisation may commit to: stated before, held at acceptance, set by the administrator."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import uuid4

import pytest
from allauth.account.models import EmailAddress
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings as SettingsWrapper

from apps.accounts.access import Principal, principal_of_user
from apps.accounts.models import AuditEntry, User
from apps.accounts.problems import Problem
from apps.fleet.models import Device
from apps.ledger.models import Hold
from apps.sales.buying_limits import Purchase, Rules, Standing, refusals, seconds_allowed
from apps.sales.models import Quote
from apps.sales.services import (
    acceptance_refusals,
    buying_rules_set,
    contract_end,
    payment_method_note,
    quote_accept,
    quote_create,
    rules_now,
    standing_set,
)
from apps.sales.services.standing import seconds_ahead
from apps.timetable.models import Reservation, Window
from tests.cast import Cast
from tests.sales.market import NOW, Market
from tests.sales.race import accept_together

MONEY = st.decimals(min_value=0, max_value=10**6, places=4)
DAYS = st.integers(1, 400)


def a_quote(cast: Cast, market: Market, executions: int = 1000) -> Quote:
    program = market.program(cast.organisation, cast.engineer)
    return quote_create(
        organisation=cast.organisation,
        lines=[(program, executions)],
        klass="standard",
        pool=market.lpu,
        window=(NOW, NOW + timedelta(days=7)),
        actor=cast.engineer,
        now=NOW,
    )


def accepted(cast: Cast, quote: Quote, actor: User | None = None) -> object:
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=actor or cast.owner, now=NOW)


def kinds(cast: Cast, quote: Quote, actor: User | None = None) -> list[str]:
    return [one.kind for one in acceptance_refusals(quote, actor=actor or cast.owner, now=NOW)]


# The rules alone.


@given(limit=st.none() | MONEY, amounts=st.lists(MONEY, max_size=12))
def test_what_is_accepted_one_after_another_never_passes_the_credit_limit(
    limit: Decimal | None, amounts: list[Decimal]
) -> None:
    rules, committed, refused = Rules(limit, Decimal(1), timedelta(days=30)), Decimal(0), 0
    for amount in amounts:
        asked = Purchase(amount, "EUR", committed, Fraction(1), Fraction(0), 1, "lpu", is_confirmed=True)
        if refusals(asked, Standing(), rules):
            refused += 1
            assert limit is not None
            assert committed + amount > limit, "refused without need"
        else:
            committed += amount
    assert limit is None or committed <= limit
    assert refused == 0 or limit is not None


@given(
    share=st.decimals("0.01", "0.99", places=2),
    devices=st.integers(1, 9),
    days=DAYS,
    asks=st.lists(st.fractions(0, 10**6), max_size=12),
)
def test_what_is_accepted_one_after_another_never_passes_the_share(
    share: Decimal, devices: int, days: int, asks: list[Fraction]
) -> None:
    rules, ahead = Rules(None, share, timedelta(days=days)), Fraction(0)
    allowed = seconds_allowed(share, devices, rules.horizon)
    assert allowed < devices * days * 86_400
    for seconds in asks:
        asked = Purchase(Decimal(1), "EUR", Decimal(0), seconds, ahead, devices, "lpu", is_confirmed=True)
        if not refusals(asked, Standing(), rules):
            ahead += seconds
        else:
            assert ahead + seconds > allowed, "refused without need"
    assert ahead <= allowed


@given(standing=st.builds(Standing, st.booleans(), st.booleans(), st.none() | MONEY), newcomer=MONEY)
def test_an_own_limit_goes_before_everything_and_trust_before_the_newcomers(
    standing: Standing, newcomer: Decimal
) -> None:
    limit = standing.credit_under(Rules(newcomer, Decimal(1), timedelta(days=1)))
    if standing.credit is not None:
        assert limit == standing.credit
    else:
        assert limit == (None if standing.is_approved or standing.has_payment_method else newcomer)


# In the market.


def test_only_what_is_still_to_come_is_ahead_to_the_microsecond(cast: Cast, market: Market) -> None:
    hour, micro = timedelta(hours=1), timedelta(microseconds=1)
    windows = [
        (NOW - 2 * hour, NOW - hour),
        (NOW - hour, NOW),
        (NOW - hour, NOW + hour),
        (NOW + hour, NOW + 2 * hour + micro),
        (NOW + 200 * hour, NOW + 9_000 * hour - micro),
        (NOW - hour, NOW + 3 * micro),
    ]
    reservation = Reservation.objects.create(
        contract_id=uuid4(), organisation=cast.organisation, pool=market.lpu, klass="standard", created_at=NOW
    )
    for number, window in enumerate(windows):
        device = Device.objects.create(pool=market.lpu, name=f"ahead-{number}")
        Window.objects.create(reservation=reservation, device=device, period=DateTimeTZRange(*window, "[)"))
    by_hand = sum((max(end - max(start, NOW), timedelta()) for start, end in windows), timedelta())
    found = seconds_ahead(Window.objects.all(), NOW)
    assert found == Fraction(by_hand // micro, 10**6) == 8802 * 3600 + Fraction(3, 10**6)
    assert seconds_ahead(Window.objects.none(), NOW) == 0


def test_a_person_whose_address_is_not_confirmed_buys_nothing_and_is_told_what_to_do(
    cast: Cast, market: Market
) -> None:
    quote = a_quote(cast, market)
    EmailAddress.objects.filter(user=cast.owner).update(verified=False)
    assert kinds(cast, quote) == ["email-not-confirmed"]
    with pytest.raises(Problem, match="follow the link") as refused:
        accepted(cast, quote)
    assert refused.value.status == 403
    assert not Hold.objects.exists()
    assert accepted(cast, quote, cast.engineer)


def test_a_newcomer_gets_a_first_result_and_then_meets_the_limit(
    cast: Cast, market: Market, settings: SettingsWrapper
) -> None:
    first, second, third = (a_quote(cast, market) for _ in range(3))
    settings.NEWCOMER_CREDIT = first.worst * 2
    contract = accepted(cast, first)
    accepted(cast, second)
    assert kinds(cast, third) == ["credit-limit"]
    with pytest.raises(Problem, match="Add a payment method"):
        accepted(cast, third)
    contract_end(contract_id=contract.id, organisation=cast.organisation, actor=cast.owner, now=NOW)  # type: ignore[attr-defined]
    assert accepted(cast, third), "what was given back is free again"


def test_a_payment_method_or_an_approval_lifts_the_limit(cast: Cast, market: Market, settings: SettingsWrapper) -> None:
    settings.NEWCOMER_CREDIT = Decimal(0)
    quote = a_quote(cast, market)
    assert kinds(cast, quote) == ["credit-limit"]
    payment_method_note(organisation_id=cast.organisation.pk, is_present=True)
    assert kinds(cast, quote) == []
    payment_method_note(organisation_id=cast.organisation.pk, is_present=False)
    assert kinds(cast, quote) == ["credit-limit"]
    _standing(cast, is_approved=True)
    assert kinds(cast, quote) == []
    assert AuditEntry.objects.filter(action="organisation.standing", organisation=cast.organisation).count() == 1


def test_one_organisation_cannot_take_a_pool_for_itself(cast: Cast, market: Market) -> None:
    hour = a_quote(cast, market, executions=36_000_000)  # 90,000 cycles at 900 MHz: an hour of one device
    assert Fraction(hour.document["device_seconds"]) > 3600
    devices = market.lpu.devices.filter(state="active").count()
    buying_rules_set(
        newcomer_credit=None, pool_share=Decimal("0.1") / devices, horizon_days=1, principal=_admin(cast), now=NOW
    )
    accepted(cast, hour)
    accepted(cast, a_quote(cast, market, executions=36_000_000))
    last = a_quote(cast, market, executions=36_000_000)
    assert kinds(cast, last) == ["pool-share"]
    with pytest.raises(Problem, match="of device time in advance"):
        accepted(cast, last)
    assert acceptance_refusals(last, actor=cast.owner, now=NOW + timedelta(days=2)) == [], (
        "time that has passed is free"
    )
    _standing(cast, pool_share=Decimal(1))
    assert accepted(cast, last)


def test_rules_are_set_by_the_administrator_and_recorded(
    cast: Cast, market: Market, as_user: Callable[[User], Client]
) -> None:
    client = as_user(cast.admin)
    assert (
        client.post("/buying", {"newcomer_credit": "75", "pool_share": "25", "horizon_days": "14"}).status_code == 302
    )
    assert rules_now() == Rules(Decimal(75), Decimal("0.25"), timedelta(days=14))
    assert client.post("/buying", {"pool_share": "0", "horizon_days": "14"}).status_code == 422
    client.post(f"/buying/{cast.organisation.pk}", {"is_approved": "on", "credit": "500", "pool_share": ""})
    page = client.get("/buying").content.decode()
    assert 'value="500"' in page
    assert AuditEntry.objects.get(action="buying.rules").detail["pool_share"] == "0.25"


def test_the_quote_says_beforehand_what_would_refuse_it(
    cast: Cast, market: Market, as_user: Callable[[User], Client], settings: SettingsWrapper
) -> None:
    settings.NEWCOMER_CREDIT = Decimal(0)
    quote = _quote_of_today(cast, market)
    client = as_user(cast.owner)
    told = client.get(f"/api/v1/quotes/{quote.pk}").json()["refused"]
    assert [one["code"] for one in told] == ["credit-limit"]
    for path in (f"/quotes/{quote.pk}", f"/quotes/{quote.pk}/accept"):
        page = client.get(path).content.decode()
        assert "Credit limit reached" in page
        assert "Add a payment method" in page
    answer = client.post(f"/api/v1/quotes/{quote.pk}/accept")
    assert (answer.status_code, answer.json()["code"]) == (409, "credit-limit")


@pytest.mark.django_db(transaction=True)
def test_acceptances_at_the_same_moment_never_pass_a_limit(
    cast: Cast, market: Market, settings: SettingsWrapper
) -> None:
    quotes = [a_quote(cast, market) for _ in range(8)]
    settings.NEWCOMER_CREDIT = quotes[0].worst * 3
    outcome = accept_together([(quote.id, cast.organisation) for quote in quotes], now=NOW)
    assert outcome.broken == []
    assert (len(outcome.won), dict(outcome.refused)) == (3, {"credit-limit": 5})


@pytest.mark.django_db(transaction=True)
def test_acceptances_at_the_same_moment_never_pass_the_share(cast: Cast, market: Market) -> None:
    quotes = [a_quote(cast, market, executions=36_000_000) for _ in range(6)]
    devices = market.lpu.devices.filter(state="active").count()
    share = Decimal("0.09") / devices  # 2.16 hours of a day
    buying_rules_set(
        newcomer_credit=None,
        pool_share=share.quantize(Decimal("0.0001")),
        horizon_days=1,
        principal=_admin(cast),
        now=NOW,
    )
    outcome = accept_together([(quote.id, cast.organisation) for quote in quotes], now=NOW)
    assert outcome.broken == []
    assert (len(outcome.won), dict(outcome.refused)) == (2, {"pool-share": 4})


def _admin(cast: Cast) -> Principal:
    return principal_of_user(cast.admin, None)


def _standing(cast: Cast, *, is_approved: bool = False, pool_share: Decimal | None = None) -> None:
    standing_set(
        organisation=cast.organisation,
        is_approved=is_approved,
        credit=None,
        pool_share=pool_share,
        principal=principal_of_user(cast.admin, None),
        now=NOW,
    )


def _quote_of_today(cast: Cast, market: Market) -> Quote:
    now = timezone.now()
    program = market.program(cast.organisation, cast.engineer)
    return quote_create(
        organisation=cast.organisation,
        lines=[(program, 10)],
        klass="standard",
        pool=market.lpu,
        window=(now, now + timedelta(days=7)),
        actor=cast.engineer,
        now=now,
    )
