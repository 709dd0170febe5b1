"""Every difference between quote and actual has a name, and the names sum to it, to the last digit."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from apps.ledger.services import usage_post
from apps.ledger.usage import Usage
from apps.pricing.rating import Counts, exact_sum
from apps.sales.differences import differences_named
from apps.sales.models import Contract
from apps.sales.selectors import contract_usage
from apps.sales.services import (
    Quota,
    QuoteLine,
    contract_close,
    contract_executions_take,
    contract_lease_rate,
    quote_accept,
    quote_create,
)
from tests.cast import Cast
from tests.sales.market import NOW, Market, open_market
from tests.sales.test_forms import run

pytestmark = pytest.mark.django_db


def _sold(cast: Cast, market: Market, lines: Any, **asked: Any) -> Contract:
    asked = {"klass": "standard", "window": (NOW, NOW + timedelta(days=7)), **asked}
    quote = quote_create(organisation=cast.organisation, lines=lines, pool=market.lpu, actor=None, now=NOW, **asked)
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=NOW)


def _named(contract: Contract) -> dict[str, str]:
    contract.refresh_from_db()
    usage = contract_usage(contract)
    rows = differences_named(contract, usage)
    assert exact_sum(Decimal(row["amount"]) for row in rows) == usage.difference
    return {row["name"]: row["amount"] for row in rows}


def test_what_is_not_used_is_named_as_the_contract_stands(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    contract = _sold(cast, market, [QuoteLine(program, 1_000_000)])
    run(contract, program, 400_000)
    assert _named(contract) == {"not used yet": "-3.3792"}
    amendment = quote_create(
        organisation=cast.organisation,
        lines=[QuoteLine(program, 1)],
        klass="standard",
        pool=market.lpu,
        amends=contract,
        actor=None,
        now=NOW,
    )
    quote_accept(quote_id=amendment.id, organisation=cast.organisation, actor=None, now=NOW)
    assert _named(contract) == {"ended by an amendment": "-3.3792"}


def test_the_rest_of_a_quota_is_named_in_operations(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer, operations=10**12)
    contract = _sold(cast, market, Quota("float32", 10))
    run(contract, program, 4)
    (row,) = differences_named(contract, contract_usage(contract))
    assert (row["amount"], row["unit"]) == ("-0.048", "operations")
    assert "6,000,000,000,000 of 10,000,000,000,000 operations" in row["sentence"]


def test_cheaper_hours_and_a_lower_class_are_named_beside_what_is_unused(cast: Cast) -> None:
    def hourly(document: dict[str, Any]) -> None:
        document["classes"]["standard"]["time_of_use"] = True
        document["tariff"]["periods"][1]["factor"] = "0.5"
        document["classes"]["priority"]["unused"] = "0.25"

    market = open_market(change=hourly)
    program = market.program(cast.organisation, cast.engineer)
    hours = _sold(cast, market, [QuoteLine(program, 1_000_000)])
    run(hours, program, 500_000, at=NOW.replace(hour=23))
    assert _named(hours) == {"not used yet": "-2.816", "cheaper hours": "-1.408"}
    urgent = _sold(cast, market, [QuoteLine(program, 1_000_000)], klass="priority")
    _served(urgent, program, 600_000)
    contract_close(contract_id=urgent.id, now=urgent.ends_at)
    named = _named(urgent)
    assert set(named) == {"unused", "class served", "charged for unused"}
    assert named["charged for unused"] == "0.5632"


def _served(contract: Contract, program: Any, executions: int) -> None:
    contract_executions_take(contract_id=contract.id, program_digest=program.digest, count=executions, now=NOW)
    rating = contract_lease_rate(
        contract=contract,
        program_digest=program.digest,
        executions=executions,
        first_instant=NOW,
        now=NOW,
        served="batch",
    )
    usage = Usage(
        organisation_id=contract.organisation_id,
        contract_id=contract.id,
        lease_id=uuid4(),
        idempotency_key=f"{uuid4()}",
        operations=rating.counted_operations,
        cycles=Counts(1, 1).cycles * executions,
        program_digest=program.digest,
        project_id=program.model_version.model.project_id,
        model_name="model",
        rating=rating,
        occurred_from=NOW,
        occurred_to=NOW + timedelta(seconds=1),
    )
    usage_post(usage, now=NOW)
