"""Contracts of every form walked through the database by the product's own services, from quote to invoice to proof.

They are sold once. Then their month (leases, closing, invoice) is run twice from the same state: what the first run wrote
is taken back, and the second must write the same bytes.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.cli.verify import verify
from apps.compilation.models import Program
from apps.invoicing.exports import invoice_csv, invoice_json
from apps.invoicing.models import Invoice
from apps.invoicing.services import invoice_issue
from apps.ledger.chain import chain_json
from apps.ledger.models import Hold, UsageRow
from apps.ledger.reconciling import reconcile
from apps.ledger.selectors import chain_verify
from apps.ledger.services import usage_post
from apps.ledger.usage import Usage
from apps.pricing.rating import Rating, exact_sum, payable_of, rate_bought, reductions
from apps.pricing.rating.decimals import subtract
from apps.pricing.selectors import book_of_digest, document_of
from apps.sales.models import Contract, ContractState, FormName
from apps.sales.selectors import ContractUsage, contract_usages
from apps.sales.services import (
    Quota,
    QuoteLine,
    contract_close,
    contract_end,
    contract_executions_take,
    contract_lease_rate,
    offer_make,
    quote_accept,
    quote_create,
)
from apps.sales.volumes import PER_EXECUTION, Form
from tests.cast import Cast
from tests.sales.market import NOW, Market

KINDS = ("priority", "interval", "execution", "quota", "spread", "hourly", "off_peak", "batch")
LATER = NOW + timedelta(hours=1)
LAST = NOW + timedelta(days=3)


def book_change(document: dict[str, Any]) -> None:
    """The shipped book with a class whose price follows the hours, guaranteed intervals on offer, a minimum per contract that
    some of the contracts lack something to, and late cancellation in all classes but one."""
    document["contract_minimum"] = "0.0137"
    document["classes"]["guaranteed"]["offered"] = True
    for name in ("standard", "off_peak", "batch", "guaranteed"):
        document["classes"][name]["late_cancellation"] = {"notice_minutes": 60, "share": "0.4"}
    document["classes"]["hourly"] = {**document["classes"]["standard"], "title": "Hourly", "time_of_use": True}
    document["tariff"]["periods"][1]["factor"] = "0.6"


@dataclass(frozen=True)
class Sold:
    """A contract, its program and the leases that it will be run in: (executions, begin, class served)."""

    contract: Contract
    program: Program
    kind: str
    leases: tuple[tuple[int, datetime, str], ...]
    full: bool


@dataclass
class Outcome:
    """What a walk came to."""

    contracts: int = 0
    full: int = 0
    leases: int = 0
    lines: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    named: Counter[str] = field(default_factory=Counter)
    replayed: int = 0
    net: Decimal = Decimal(0)
    released: Decimal = Decimal(0)


def walk(cast: Cast, market: Market, count: int, *, seed: int = 2026) -> Outcome:
    """Sell, run and close `count` contracts, invoice them, and check every equality. Raises AssertionError."""
    dice = random.Random(seed)
    # What must begin at once or at a certain instant is sold while the timetable is empty.
    kinds = sorted((KINDS[number % len(KINDS)] for number in range(count)), key=KINDS.index)
    sold = [_sell(cast, market, dice, kind) for kind in kinds]
    outcome = Outcome(contracts=count, full=sum(one.full for one in sold), kinds=Counter(one.kind for one in sold))
    outcome.leases = sum(len(one.leases) for one in sold)
    first = _rehearse(lambda: _month(cast, sold))
    again = _month(cast, sold)
    assert again == first, "a month replayed gives the same bytes"
    outcome.replayed = sum(map(len, again))
    invoice = Invoice.objects.get()
    _check_contracts(sold, invoice, outcome)
    _check_invoice(invoice)
    assert verify(json.loads(invoice_json(invoice)), models=[], books=[document_of(market.book)]).checked
    assert reconcile(cast.organisation.id).differences == []
    assert chain_verify(cast.organisation.id).broken_at is None
    outcome.lines, outcome.net = len(invoice.document["lines"]), invoice.net
    return outcome


def _rehearse(act: Callable[[], list[bytes]]) -> list[bytes]:
    """What `act` gives, with all that it wrote taken back."""
    with transaction.atomic():
        found = act()
        transaction.set_rollback(True)
    return found


def _month(cast: Cast, sold: Sequence[Sold]) -> list[bytes]:
    """Run every contract and issue the invoice; everything that leaves the house, as bytes."""
    for number, one in enumerate(sold):
        _run(number, one)
        if one.full:
            contract_close(contract_id=one.contract.id, now=LAST)
        else:
            contract_end(contract_id=one.contract.id, organisation=cast.organisation, actor=cast.owner, now=LAST)
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=LAST + timedelta(minutes=1))
    invoice.refresh_from_db()
    chain = "".join(chain_json(cast.organisation.id, now=LAST))
    return [invoice_json(invoice).encode(), invoice_csv(invoice).encode(), chain.encode()]


def _sell(cast: Cast, market: Market, dice: random.Random, kind: str) -> Sold:
    size = 4 if kind == "priority" else 7
    program = market.program(
        cast.organisation,
        cast.engineer,
        operations=dice.randrange(10 ** dice.randrange(1, 13)),
        interval=dice.randrange(1, 10 ** dice.randrange(1, size)),
    )
    asked: dict[str, Any] = {
        "organisation": cast.organisation,
        "klass": "standard",
        "pool": market.lpu,
        "window": None,
        "now": NOW,
        "lines": [QuoteLine(program, dice.randrange(1, 10 ** dice.randrange(1, size)))],
        "form": PER_EXECUTION,
    } | _asked(kind, program, dice)
    preview = offer_make(**asked)
    quote = quote_create(**asked, actor=None)
    assert preview.priced.worst == quote.worst, "the preview is the quote"
    contract = quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=None, now=NOW)
    volume = _volume(contract, program)
    is_full = dice.random() < 0.6
    used = volume if is_full else dice.randrange(1, volume + 1)
    cuts = sorted({dice.randrange(1, used) for _ in range(3)}) if used > 1 else []
    sizes = [right - left for left, right in pairwise([0, *cuts, used])]
    begin, end = contract.starts_at, min(contract.ends_at, LAST)
    begins = sorted(begin + (end - begin) * dice.random() for _ in sizes)
    served = [dice.choice(("", "", "batch")) if kind == "priority" else "" for _ in sizes]
    exhausted = used == volume and kind != "quota"
    return Sold(contract, program, kind, tuple(zip(sizes, begins, served, strict=True)), exhausted)


def _asked(kind: str, program: Program, dice: random.Random) -> dict[str, Any]:
    """What a kind of contract asks for beside the plain volume."""
    if kind == "quota":
        return {"lines": Quota("float32", dice.randrange(1, 2_000))}
    if kind == "spread":
        parts = dice.randrange(2, 8)
        executions = parts * dice.randrange(1, 10 ** dice.randrange(1, 6))
        return {
            "lines": [QuoteLine(program, executions)],
            "form": Form(FormName.SPREAD, Fraction(86_400)),
            "window": (NOW, NOW + timedelta(days=parts)),
        }
    if kind == "interval":
        every = Fraction(dice.randrange(1, 50), 1000)
        most = int(every * program.clock_hz) // max(program.interval_cycles, program.latency_cycles)
        begin = LATER + timedelta(seconds=dice.randrange(86_400))
        if most < 1:
            every, most = Fraction(1), 1
        return {
            "lines": [QuoteLine(program, dice.randrange(1, most + 1))],
            "form": Form(FormName.INTERVAL, every),
            "klass": "guaranteed",
            "window": (begin, begin + timedelta(seconds=dice.randrange(1, 60))),
        }
    return {} if kind == "execution" else {"klass": kind}


def _volume(contract: Contract, program: Program) -> int:
    """How many executions the contract holds; of a quota, how many the program may draw."""
    if contract.form != FormName.QUOTA:
        executions: int = contract.terms["lines"][0]["executions"]
        return executions
    rating = Rating.from_json(contract.terms["lines"][0]["rating"])
    each = max(program.operations, program.interval_cycles * 1024)
    return max(1, rating.billed_operations // each)


def _run(number: int, one: Sold) -> None:
    """What dispatch does for every lease: take, rate by the frozen terms, hours and class got, post."""
    contract, program = one.contract, one.program
    for index, (executions, begin, served) in enumerate(one.leases):
        contract_executions_take(contract_id=contract.id, program_digest=program.digest, count=executions, now=begin)
        rating = contract_lease_rate(
            contract=contract,
            program_digest=program.digest,
            executions=executions,
            first_instant=begin,
            now=begin,
            served=served,
        )
        lease = UUID(int=number << 32 | index)
        usage = Usage(
            organisation_id=contract.organisation_id,
            contract_id=contract.id,
            lease_id=lease,
            idempotency_key=f"lease:{lease}",
            operations=rating.counted_operations,
            cycles=program.interval_cycles * executions,
            program_digest=program.digest,
            project_id=program.model_version.model.project_id,
            model_name=program.model_version.model.name,
            rating=rating,
            occurred_from=begin,
            occurred_to=begin + timedelta(seconds=1),
        )
        usage_post(usage, now=begin)


def _check_contracts(sold: Sequence[Sold], invoice: Invoice, outcome: Outcome) -> None:
    by_contract: dict[str, list[Decimal]] = {}
    for line in invoice.document["lines"]:
        by_contract.setdefault(line["contract"], []).append(Decimal(line["amount"]))
    compared = {one["contract"]: one for one in invoice.document["quoted_against_actual"]}
    stored = Contract.objects.in_bulk([one.contract.id for one in sold])
    usages = contract_usages(list(stored.values()))
    for key, contract in stored.items():
        usage, hold = usages[key], Hold.objects.get(contract_id=key)
        assert hold.amount == contract.net == usage.quoted
        assert hold.posted == usage.actual == exact_sum(by_contract[str(key)])
        named = _named(contract, usage)
        assert usage.difference == exact_sum(named.values()), "a difference without a name"
        said = compared[str(key)]
        assert Decimal(said["difference"]) == usage.difference
        assert exact_sum(Decimal(one["amount"]) for one in said["named"]) == usage.difference
        outcome.named.update(name for name, amount in named.items() if amount)
        if contract.state == ContractState.USED and not named["served"] and not named["hours"]:
            assert usage.difference == 0, "used in full, as bought: the invoice is the quote"
        outcome.released = exact_sum([outcome.released, subtract(hold.amount, hold.posted)])
    assert invoice.net == exact_sum(amount for amounts in by_contract.values() for amount in amounts)


def _named(contract: Contract, usage: ContractUsage) -> dict[str, Decimal]:
    """Every reason why a contract's actual is not its quote, each rated for itself from the usage rows."""
    book = book_of_digest(contract.terms["book"]["digest"])
    named = {"served": Decimal(0), "hours": Decimal(0), "unused": Decimal(0), "charged for unused": usage.breakage}
    named["contract minimum"] = subtract(usage.minimum, contract.minimum)
    named["late cancellation"] = _late(contract, usage)
    if contract.state != ContractState.ACTIVE:
        of_use = subtract(usage.actual, usage.minimum)
        assert usage.actual == max(of_use, book.contract_minimum), "what its use came to, or the minimum"
    bought = Decimal(0)
    for row in UsageRow.objects.filter(contract_id=contract.id):
        rating = Rating.from_json(row.rating)
        if not rating.unused:
            bought = exact_sum([bought, rate_bought(book, rating).amount])
            for one in reductions(book, rating):
                named[one.name] = subtract(named[one.name], one.amount)
    (line,) = usage.lines
    if line.unused:
        whole = Rating.from_json(line.quoted_rating)
        each = Fraction(whole.amount) / line.executions
        lines = subtract(usage.quoted, contract.minimum)
        assert Fraction(bought) + line.unused * each == Fraction(lines)
        named["unused"] = subtract(bought, lines)
    return named


def _late(contract: Contract, usage: ContractUsage) -> Decimal:
    """What was charged as late, computed again in fractions: 0.4 of the price, of a guaranteed interval what that is beyond the
    0.6 of a list price of half as much."""
    share = Fraction(1, 10) if contract.klass == "guaranteed" else Fraction(2, 5)
    (line,) = usage.lines
    each = Fraction(Rating.from_json(line.quoted_rating).amount) / line.executions
    found = Fraction(0)
    for row in UsageRow.objects.filter(contract_id=contract.id, unused=True):
        rating = Rating.from_json(row.rating)
        if rating.late:
            count = rating.counts.operations if line.unit == "operations" else rating.executions
            assert 0 < count <= line.unused
            assert Fraction(row.amount) == each * count * share
            found += each * count * share
    assert found == Fraction(usage.late)
    return usage.late


def _check_invoice(invoice: Invoice) -> None:
    document = invoice.document
    assert invoice.payable == payable_of(invoice.net, exponent=2).payable
    rows = [*document["lines"], *document.get("adjustments", [])]
    assert exact_sum(Decimal(row["amount"]) for row in rows) == invoice.net
    assert exact_sum(Decimal(row["share"]) for row in rows) == invoice.payable
