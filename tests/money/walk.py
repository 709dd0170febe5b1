"""Contracts walked through the database by the product's own services, from quote to invoice to offline recomputation."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

from apps.billing.exports import invoice_json
from apps.billing.services import invoice_issue
from apps.cli.verify import verify
from apps.ledger.models import Hold
from apps.ledger.selectors import chain_verify, reconcile
from apps.pricing.rating import exact_sum, payable_of
from apps.pricing.rating.decimals import subtract
from apps.pricing.selectors import document_of
from apps.sales.models import Contract, ContractState
from apps.sales.selectors import contract_usages
from apps.sales.services import contract_close, contract_end, offer_make, quote_accept, quote_create
from tests.cast import Cast
from tests.sales.market import NOW, Market
from tests.sales.test_contracts import run

KLASSES = ("standard", "priority", "batch", "off_peak")


@dataclass
class Outcome:
    """What a walk came to."""

    contracts: int = 0
    full: int = 0
    leases: int = 0
    lines: int = 0
    net: Decimal = Decimal(0)
    released: Decimal = Decimal(0)


def walk(cast: Cast, market: Market, count: int, *, seed: int = 2026) -> Outcome:
    """Sell, run and close `count` contracts, invoice them, and check every equality. Raises AssertionError."""
    dice, outcome = random.Random(seed), Outcome(contracts=count)
    contracts = [_contract(cast, market, dice, outcome) for _ in range(count)]
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=NOW + timedelta(minutes=1))
    invoice.refresh_from_db()
    by_contract: dict[str, list[Decimal]] = {}
    for line in invoice.document["lines"]:
        by_contract.setdefault(line["contract"], []).append(Decimal(line["amount"]))
    stored = Contract.objects.in_bulk([contract.id for contract in contracts])
    usages = contract_usages(list(stored.values()))
    for key, contract in stored.items():
        usage, hold = usages[key], Hold.objects.get(contract_id=key)
        assert hold.amount == contract.net == usage.quoted
        assert hold.posted == usage.actual == exact_sum(by_contract[str(key)])
        assert usage.difference == exact_sum(line.difference for line in usage.lines)
        if contract.state == ContractState.USED:
            assert usage.difference == 0, "used in full: the invoice is the quote"
        outcome.released = exact_sum([outcome.released, subtract(hold.amount, hold.posted)])
    outcome.lines, outcome.net = len(invoice.document["lines"]), invoice.net
    assert invoice.net == exact_sum(amount for amounts in by_contract.values() for amount in amounts)
    assert invoice.payable == payable_of(invoice.net, exponent=2).payable
    assert exact_sum(Decimal(line["share"]) for line in invoice.document["lines"]) == invoice.payable
    assert verify(json.loads(invoice_json(invoice)), models=[], books=[document_of(market.book)]).checked
    assert reconcile(cast.organisation.id).differences == []
    assert chain_verify(cast.organisation.id).broken_at is None
    return outcome


def _contract(cast: Cast, market: Market, dice: random.Random, outcome: Outcome) -> Contract:
    program = market.program(
        cast.organisation, cast.engineer, operations=dice.randrange(10 ** dice.randrange(1, 13)),
        interval=dice.randrange(1, 10 ** dice.randrange(1, 7)),
    )  # fmt: skip
    asked = {
        "organisation": cast.organisation, "lines": [(program, dice.randrange(1, 10 ** dice.randrange(1, 7)))],
        "klass": dice.choice(KLASSES), "pool": market.lpu, "window": None, "now": NOW,
    }  # fmt: skip
    preview = offer_make(**asked)  # type: ignore[arg-type]
    quote = quote_create(**asked, actor=None)  # type: ignore[arg-type]
    assert preview.priced.worst == quote.worst, "the preview is the quote"
    contract = quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=None, now=NOW)
    volume = contract.terms["lines"][0]["executions"]
    used = volume if dice.random() < 0.6 else dice.randrange(1, volume + 1)
    cuts = sorted({dice.randrange(1, used) for _ in range(3)}) if used > 1 else []
    for executions in [right - left for left, right in pairwise([0, *cuts, used])]:
        run(contract, executions)
        outcome.leases += 1
    outcome.full += used == volume
    if used == volume:
        contract_close(contract_id=contract.id, now=NOW)
    else:
        contract_end(contract_id=contract.id, organisation=cast.organisation, actor=cast.owner, now=NOW)
    return contract
