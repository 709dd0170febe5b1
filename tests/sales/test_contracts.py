from __future__ import annotations

import threading
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import uuid4

import pytest
from django.db import connection

from apps.accounts.problems import Problem
from apps.ledger.models import Hold, UsageRow
from apps.ledger.services import usage_post
from apps.ledger.usage import Usage
from apps.pricing.rating import exact_sum
from apps.pricing.services import pricebook_publish
from apps.sales.models import Contract, ContractState
from apps.sales.selectors import contract_allowed, contract_usage, contracts_open
from apps.sales.services import (
    contract_close,
    contract_end,
    contract_executions_return,
    contract_executions_take,
    contract_lease_rate,
    contracts_close_due,
    quote_accept,
    quote_create,
)
from apps.sales.snapshots import ProgramSnapshot, project_uuid
from apps.timetable.models import Reservation
from tests.cast import Cast
from tests.pricing.rating.books import document
from tests.sales.market import NOW, Market

pytestmark = pytest.mark.django_db


def sold(cast: Cast, market: Market, *, executions: int = 1000, klass: str = "standard") -> Contract:
    """An accepted contract over one program."""
    program = market.program(cast.organisation, cast.engineer)
    quote = quote_create(
        organisation=cast.organisation, lines=[(program, executions)], klass=klass, pool=market.lpu, actor=None, now=NOW
    )
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=NOW)


def run(contract: Contract, executions: int, *, now: datetime = NOW, number: int = 0, model: str = "") -> UsageRow:
    """What a completed lease does: take, rate by the frozen terms, post."""
    line = contract.terms["lines"][number]
    snapshot = ProgramSnapshot.from_json(line["program"])
    contract_executions_take(contract_id=contract.id, program_digest=snapshot.digest, count=executions, now=now)
    rating = contract_lease_rate(
        contract=contract, program_digest=snapshot.digest, executions=executions, first_instant=now, now=now
    )
    lease = uuid4()
    usage = Usage(
        organisation_id=contract.organisation_id,
        contract_id=contract.id,
        lease_id=lease,
        idempotency_key=f"lease:{lease}",
        operations=snapshot.operations * executions,
        cycles=snapshot.cycles * executions,
        program_digest=snapshot.digest,
        project_id=project_uuid(snapshot),
        model_name=model or snapshot.model,
        rating=rating,
        occurred_from=now,
        occurred_to=now + timedelta(seconds=1),
    )
    return usage_post(usage, now=now)[0]


def _digest(contract: Contract) -> str:
    digest: str = contract.terms["lines"][0]["program"]["digest"]
    return digest


def test_what_is_used_up_costs_what_was_quoted(cast: Cast, market: Market) -> None:
    contract = sold(cast, market)
    for executions in (1, 332, 667):
        run(contract, executions)
    usage = contract_usage(contract)
    assert usage.actual == usage.quoted == contract.net
    assert (usage.difference, usage.share_used) == (0, 1)
    assert contract_close(contract_id=contract.id, now=NOW).state == ContractState.USED
    assert Hold.objects.get().state == "posted"


def test_a_volume_is_never_exceeded(cast: Cast, market: Market) -> None:
    contract = sold(cast, market)
    contract_executions_take(contract_id=contract.id, program_digest=_digest(contract), count=900, now=NOW)
    with pytest.raises(Problem, match="100 of 1,000 executions left"):
        contract_executions_take(contract_id=contract.id, program_digest=_digest(contract), count=101, now=NOW)
    contract_executions_return(contract_id=contract.id, program_digest=_digest(contract), count=1, now=NOW)
    contract_executions_take(contract_id=contract.id, program_digest=_digest(contract), count=101, now=NOW)


def test_a_program_outside_the_contract_is_refused(cast: Cast, market: Market) -> None:
    contract = sold(cast, market)
    with pytest.raises(Problem, match="is not part of this contract"):
        contract_executions_take(contract_id=contract.id, program_digest="00" * 32, count=1, now=NOW)
    with pytest.raises(Problem, match="is not part of this contract"):
        contract_lease_rate(contract=contract, program_digest="00" * 32, executions=1, first_instant=NOW, now=NOW)


def test_a_later_price_book_does_not_change_what_was_sold(cast: Cast, market: Market) -> None:
    contract = sold(cast, market)
    dearer = document(lambda d: (d.update(version=2), d["prices"]["lpu"].update(float32="0.9")))
    later = NOW + timedelta(days=30)
    pricebook_publish(document=dearer, effective_from=later, now=NOW)
    rating = contract_lease_rate(
        contract=contract, program_digest=_digest(contract), executions=1000, first_instant=later, now=later
    )
    assert rating.amount == contract.net


def test_a_delay_into_peak_hours_does_not_raise_an_off_peak_price(cast: Cast, market: Market) -> None:
    contract = sold(cast, market, klass="off_peak")
    noon = NOW + timedelta(days=1)
    rating = contract_lease_rate(
        contract=contract, program_digest=_digest(contract), executions=1000, first_instant=noon, now=noon
    )
    assert rating.amount == contract.net == Decimal("0.0033792")


def test_what_is_unused_is_given_back_when_the_time_is_over(cast: Cast, market: Market) -> None:
    contract = sold(cast, market)
    run(contract, 400)
    assert contracts_close_due(now=contract.ends_at - timedelta(microseconds=1)) == 0
    assert contracts_close_due(now=contract.ends_at) == 1
    contract.refresh_from_db()
    usage = contract_usage(contract)
    assert (contract.state, usage.lines[0].unused) == (ContractState.ENDED, 600)
    assert exact_sum([usage.actual, contract_usage(contract).difference.copy_negate()]) == contract.net
    assert Hold.objects.get().state == "released"
    assert Reservation.objects.get().state == "released"
    with pytest.raises(Problem, match="has ended"):
        contract_executions_take(contract_id=contract.id, program_digest=_digest(contract), count=1, now=NOW)


def test_a_contract_with_work_in_flight_is_not_closed(cast: Cast, market: Market) -> None:
    contract = sold(cast, market)
    contract_executions_take(contract_id=contract.id, program_digest=_digest(contract), count=1, now=NOW)
    assert contracts_close_due(now=contract.ends_at) == 0
    with pytest.raises(Problem, match="not finished"):
        contract_end(contract_id=contract.id, organisation=cast.organisation, actor=cast.owner, now=NOW)


def test_a_customer_may_end_a_contract_early(cast: Cast, market: Market) -> None:
    contract = sold(cast, market)
    contract_end(contract_id=contract.id, organisation=cast.organisation, actor=cast.owner, now=NOW)
    assert not contracts_open(cast.organisation, now=NOW).exists()
    with pytest.raises(Problem, match="already ended"):
        contract_end(contract_id=contract.id, organisation=cast.organisation, actor=cast.owner, now=NOW)


def test_unused_work_is_replaced_by_the_rule_of_its_class(cast: Cast, market: Market) -> None:
    later = NOW + timedelta(days=2)
    batch, priority, off_peak = (sold(cast, market, klass=klass) for klass in ("batch", "priority", "off_peak"))
    assert contract_allowed(batch, later).not_after == later + timedelta(hours=24)
    start, end, _ = contract_allowed(priority, later)
    assert timedelta(minutes=15) < end - start < timedelta(minutes=16)
    allowed = contract_allowed(off_peak, later).allowed
    assert allowed
    assert allowed[0][0] == later.replace(hour=20, minute=0)


@pytest.mark.django_db(transaction=True)
def test_two_takers_of_one_volume_never_exceed_it(cast: Cast, market: Market) -> None:
    contract = sold(cast, market, executions=10)
    taken: list[int] = []

    def take() -> None:
        try:
            contract_executions_take(contract_id=contract.id, program_digest=_digest(contract), count=3, now=NOW)
            taken.append(3)
        except Problem:
            taken.append(0)
        finally:
            connection.close()

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == [0] * 5 + [3] * 3
    assert contract.lines.get().taken == 9
