"""An amendment ends the rest of a contract and takes the new one, in one transaction or not at all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import Sum
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.ledger.models import Entry, Hold, HoldState
from apps.ledger.services import CapReached, cap_set
from apps.pricing.rating import digest_of, exact_sum
from apps.pricing.rating.decimals import subtract
from apps.sales.amendments import rest_of
from apps.sales.models import Contract, ContractState, Quote, QuoteState
from apps.sales.selectors import contract_usage
from apps.sales.services import (
    QuoteLine,
    contract_executions_return,
    contract_executions_take,
    quote_accept,
    quote_create,
)
from apps.timetable.models import Window, WindowState
from apps.timetable.services import CapacityTaken
from tests.cast import Cast
from tests.sales.market import NOW, Market, open_market
from tests.sales.test_forms import SOON, run

pytestmark = pytest.mark.django_db
WEEK = (NOW, NOW + timedelta(days=7))


def _quote(cast: Cast, market: Market, program: Any, executions: int, **asked: Any) -> Quote:
    asked = {"klass": "standard", "window": WEEK, "now": NOW, "pool": market.lpu, **asked}
    return quote_create(organisation=cast.organisation, lines=[QuoteLine(program, executions)], actor=None, **asked)


def _accept(cast: Cast, quote: Quote, *, at: Any = NOW) -> Contract:
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=at)


def test_the_rest_ends_and_the_new_contract_begins(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    old = _accept(cast, _quote(cast, market, program, 1_000_000))
    run(old, program, 400_000)
    quote = _quote(cast, market, program, 900_000, klass="batch", amends=old, now=SOON)
    assert quote.document["amends"] == {
        "contract": str(old.id),
        "terms_digest": old.terms_digest,
        "quoted": "5.632",
        "used": "2.2528",
        "lines": [
            {
                "model": quote.document["lines"][0]["program"]["model"],
                "unit": "executions",
                "unused": 600_000,
                "worth": "3.3792",
                "charge": "0",
            }
        ],
        "rest": "3.3792",
        "charge": "0",
        "net": "2.5344",
        "difference": "-0.8448",
    }
    new = _accept(cast, quote, at=SOON)
    old.refresh_from_db()
    assert (old.state, old.closed_at, new.state) == (ContractState.ENDED, SOON, ContractState.ACTIVE)
    assert new.terms["amends"]["contract"] == str(old.id)
    assert digest_of(new.terms) == new.terms_digest
    held = {hold.contract_id: hold for hold in Hold.objects.all()}
    assert (held[old.id].state, held[old.id].posted) == (HoldState.RELEASED, Decimal("2.2528"))
    assert (held[new.id].state, held[new.id].amount) == (HoldState.PENDING, Decimal("2.5344"))
    windows = Window.objects.filter(reservation__contract_id=old.id, state=WindowState.ACTIVE)
    assert not windows.filter(period__endswith__gt=SOON).exists()
    with pytest.raises(Problem, match="has ended"):
        contract_executions_take(contract_id=old.id, program_digest=program.digest, count=1, now=SOON)


def test_the_room_and_the_cap_of_the_old_contract_serve_the_new_one(cast: Cast, market: Market) -> None:
    """A pool and a cap that hold only one of the two."""
    program = market.program(cast.organisation, cast.engineer)
    day = (NOW, NOW + timedelta(hours=1.5))
    executions = 3600 * 10_000  # an hour of 90,000 cycles each at 900 MHz
    old = _accept(cast, _quote(cast, market, program, executions, window=day))
    other = _quote(cast, market, program, executions, window=day)
    with pytest.raises(CapacityTaken):
        _accept(cast, other)
    cap_set(organisation=cast.organisation, amount=old.net, currency="EUR", now=NOW)
    quote = _quote(cast, market, program, executions, window=day, amends=old)
    assert quote.document["amends"]["difference"] == "0"
    assert _accept(cast, quote).net == old.net


@pytest.mark.parametrize("refused", ["capacity", "cap"])
def test_a_refused_amendment_leaves_the_old_contract_as_it_was(cast: Cast, market: Market, refused: str) -> None:
    program = market.program(cast.organisation, cast.engineer)
    old = _accept(cast, _quote(cast, market, program, 1_000_000))
    if refused == "cap":
        cap_set(organisation=cast.organisation, amount=old.net, currency="EUR", now=NOW)
        quote, expected = _quote(cast, market, program, 2_000_000, amends=old), CapReached
    else:
        window = (
            NOW,
            NOW + timedelta(seconds=300),
        )  # 100 s are the contract's own, and another takes 180 s of the rest
        _accept(cast, _quote(cast, market, program, 1_800_000, window=window))
        quote = _quote(cast, market, program, 2_000_000, amends=old, window=window)
        expected = CapacityTaken  # type: ignore[assignment]
    with pytest.raises(expected):
        _accept(cast, quote)
    old.refresh_from_db()
    quote.refresh_from_db()
    assert (old.state, quote.state) == (ContractState.ACTIVE, QuoteState.OPEN)
    assert Hold.objects.get(contract_id=old.pk).state == HoldState.PENDING
    assert rest_of(old).worth == old.net


def test_use_after_the_quote_refuses_the_difference_that_it_states(cast: Cast, market: Market) -> None:
    """What was stated is what is charged: here 0.8448 less was stated, and 0.2816 more would be real."""
    program = market.program(cast.organisation, cast.engineer)
    old = _accept(cast, _quote(cast, market, program, 1_000_000))
    run(old, program, 400_000)
    quote = _quote(cast, market, program, 900_000, klass="batch", amends=old, now=SOON)
    run(old, program, 200_000)
    with pytest.raises(
        Problem, match=r"states a difference of .*0\.8448, but the difference is now .*0\.2816\. Nothing was bought"
    ) as refusal:
        _accept(cast, quote, at=SOON)
    assert (refusal.value.status, refusal.value.kind) == (409, "amendment-changed")
    assert refusal.value.errors == [{"stated": "-0.8448", "now": "0.2816"}]
    old.refresh_from_db()
    assert (old.state, Hold.objects.get().state) == (ContractState.ACTIVE, HoldState.PENDING)
    again = _quote(cast, market, program, 900_000, klass="batch", amends=old, now=SOON)
    new = _accept(cast, again, at=SOON)
    together = exact_sum([contract_usage(old).actual, new.net])
    assert subtract(together, old.net) == Decimal(again.document["amends"]["difference"]) == Decimal("0.2816")


def test_what_cannot_be_amended_is_said(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    old = _accept(cast, _quote(cast, market, program, 1000))
    first, second = (_quote(cast, market, program, 2000, amends=old) for _ in range(2))
    contract_executions_take(contract_id=old.id, program_digest=program.digest, count=5, now=NOW)
    with pytest.raises(Problem, match="are not finished"):
        _accept(cast, first)
    contract_executions_return(contract_id=old.id, program_digest=program.digest, count=5, now=NOW)
    _accept(cast, first)
    with pytest.raises(Problem, match="has ended"):
        _accept(cast, second)
    old.refresh_from_db()
    with pytest.raises(Problem, match="has ended"):
        _quote(cast, market, program, 2000, amends=old)
    theirs = market.program(cast.stranger_organisation, cast.stranger)
    with pytest.raises(Problem, match="no such contract"):
        quote_create(
            organisation=cast.stranger_organisation,
            lines=[QuoteLine(theirs, 1)],
            klass="standard",
            pool=market.lpu,
            amends=Contract.objects.get(quote=first),
            actor=None,
            now=NOW,
        )


def test_a_rest_that_was_reserved_is_charged_as_its_class_says(cast: Cast) -> None:
    def breakage(document: dict[str, Any]) -> None:
        document["classes"]["priority"]["unused"] = "0.5"

    market = open_market(change=breakage)
    program = market.program(cast.organisation, cast.engineer)
    old = _accept(cast, _quote(cast, market, program, 1_000_000, klass="priority"))
    quote = _quote(cast, market, program, 1_000_000, amends=old)
    told = quote.document["amends"]
    assert (told["rest"], told["charge"], told["net"], told["difference"]) == ("9.856", "2.816", "5.632", "-1.408")
    _accept(cast, quote)
    assert contract_usage(old).actual == Decimal("2.816")


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bought=st.integers(1, 10**6),
    share=st.fractions(0, 1),
    wanted=st.integers(1, 10**6),
    classes=st.tuples(*[st.sampled_from(["standard", "priority", "batch"])] * 2),
)
def test_what_was_held_is_used_or_given_back_and_the_difference_is_as_quoted(
    cast: Cast, market: Market, bought: int, share: Any, wanted: int, classes: tuple[str, str]
) -> None:
    """held(old) = used + rest; actual(old) + net(new) - net(old) = the difference that the quote stated; sums are zero."""
    program = market.program(cast.organisation, cast.engineer)
    old = _accept(cast, _quote(cast, market, program, bought, klass=classes[0]))
    used = int(bought * share)
    if used:
        run(old, program, used, at=NOW)
    old.refresh_from_db()
    rest = rest_of(old)
    assert exact_sum([rest.used, rest.worth]) == old.net
    if used == bought:
        return
    quote = _quote(cast, market, program, wanted, klass=classes[1], amends=old)
    new = _accept(cast, quote)
    before, after = (Hold.objects.get(contract_id=contract.id) for contract in (old, new))
    assert exact_sum([before.posted, rest.worth, rest.charge.copy_negate()]) == before.amount
    assert after.amount == quote.worst == new.net
    together = exact_sum([contract_usage(old).actual, new.net])
    assert subtract(together, old.net) == Decimal(quote.document["amends"]["difference"])
    assert Entry.objects.aggregate(total=Sum("amount"))["total"] == 0


def test_a_contract_is_amended_in_the_browser_and_over_the_api(
    cast: Cast, market: Market, as_user: Callable[[User], Client], as_token: Callable[..., Client]
) -> None:
    now = timezone.now()
    program = market.program(cast.organisation, cast.engineer)
    old = _accept(cast, _quote(cast, market, program, 1_000_000, now=now, window=None), at=now)
    api = as_token(cast.owner, cast.organisation, Scope.READ, Scope.BUILD, Scope.BUY)
    body = {"lines": [{"program": str(program.pk), "executions": 5}], "pool": "lpu-a", "amends": str(old.pk)}
    made = api.post("/api/v1/quotes", body, content_type="application/json").json()
    assert made["amends"] == str(old.pk)
    foreign = as_token(cast.stranger, cast.stranger_organisation, Scope.BUILD)
    assert foreign.post("/api/v1/quotes", body, content_type="application/json").status_code == 404
    missing = {**body, "amends": str(uuid4())}
    assert api.post("/api/v1/quotes/preview", missing, content_type="application/json").status_code == 404
    client = as_user(cast.owner)
    assert "Change from the contract" in client.get(f"/quotes/{made['id']}").content.decode()
    assert client.get(f"/quotes/{made['id']}/quote.pdf").content.startswith(b"%PDF")
    assert ", in one step." in client.get(f"/quotes/{made['id']}/accept").content.decode()
    new = api.post(f"/api/v1/quotes/{made['id']}/accept", {}, content_type="application/json").json()
    assert new["amends"] == str(old.pk)
    assert new["id"] in client.get(f"/contracts/{old.pk}").content.decode()
    assert str(old.pk) in client.get(f"/contracts/{new['id']}").content.decode()
