"""Whatever is done with a customer's money, in any order: the books, the invoices and the cost export agree."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.problems import Problem
from apps.billing import services
from apps.billing.adjusting import credits_of
from apps.billing.drafting import carried_open
from apps.billing.focus import focus_rows
from apps.billing.models import BillingProfile, CreditNote, Invoice, InvoiceLine
from apps.billing.reconciling import reconcile_all
from apps.billing.services.settling import balance_of
from apps.ledger.models import Transaction, UsageRow
from apps.ledger.selectors import balances
from apps.pricing.rating import exact_sum
from apps.sales.models import Contract, ContractState, FormName
from apps.sales.services import QuoteLine, contract_end, quote_accept, quote_create
from apps.sales.volumes import Form
from tests.cast import Cast
from tests.ledger.money import balance
from tests.sales.market import NOW, Market, open_market
from tests.sales.test_contracts import run

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
VOLUMES = (1, 700, 1500, 90_000, 1_234_567)
STEPS = st.tuples(
    st.sampled_from(
        ["sell", "run", "run", "end", "grant", "issue", "issue", "pay", "credit", "void", "write_off", "refund"]
    ),
    st.integers(0, 9),
)


def _book(document: dict[str, Any]) -> None:
    document["classes"]["guaranteed"]["offered"] = True
    document["free_tera_operations"] = "50"


class Machine:
    """A customer, and what may happen next; what is refused changes nothing."""

    def __init__(self, cast: Cast, market: Market) -> None:
        self.cast, self.market, self.now = cast, market, NOW
        self.program = market.program(cast.organisation, cast.engineer)

    def step(self, name: str, number: int) -> None:
        """Do it, a minute later."""
        self.now += timedelta(minutes=1)
        with suppress(Problem), transaction.atomic():
            getattr(self, name)(number)

    def sell(self, number: int) -> None:
        """A contract, every third one of exactly so many in each interval."""
        asked: dict[str, Any] = {"klass": "standard", "window": (self.now, self.now + DAY)}
        if number % 3 == 0:
            start = self.now + timedelta(minutes=1)
            asked = {
                "klass": "guaranteed", "form": Form(FormName.INTERVAL, Fraction(1)),
                "window": (start, start + timedelta(hours=1)),
            }  # fmt: skip
        volume = 700 if "form" in asked else 10 * VOLUMES[4]
        quote = quote_create(
            organisation=self.cast.organisation, lines=[QuoteLine(self.program, volume)],
            pool=self.market.lpu, actor=None, now=self.now, **asked,
        )  # fmt: skip
        quote_accept(quote_id=quote.id, organisation=self.cast.organisation, actor=self.cast.owner, now=self.now)

    def run(self, number: int) -> None:
        """A lease of one of the contracts."""
        run(self._one(Contract, number, state=ContractState.ACTIVE), VOLUMES[number % 5], now=self.now)

    def end(self, number: int) -> None:
        """The rest is given up, or charged as unused."""
        contract = self._one(Contract, number, state=ContractState.ACTIVE)
        contract_end(contract_id=contract.id, organisation=self.cast.organisation, actor=self.cast.owner, now=self.now)

    def grant(self, number: int) -> None:
        """A credit, some of which expire."""
        services.grant_create(
            organisation=self.cast.organisation, amount=Decimal(number + 1) / 4, currency="EUR", reason="so", actor=None,
            expires_at=self.now + timedelta(minutes=3) if number % 2 else None, idempotency_key=str(self.now), now=self.now,
        )  # fmt: skip
        services.grants_expire(now=self.now)

    def issue(self, number: int) -> None:
        """An invoice over everything until now; half the time something was used just before."""
        if number % 2:
            self.run(number)
            self.now += timedelta(seconds=2)
        services.invoice_issue(organisation=self.cast.organisation, actor=None, now=self.now)

    def pay(self, number: int) -> None:
        """Less, all or more than is open."""
        invoice = self._invoice(number)
        amount = (invoice.open * (number % 4 + 1) / 3).quantize(Decimal("0.01")) + Decimal("0.01")
        services.invoice_mark_paid(
            invoice_id=invoice.id, amount=amount, reference=str(self.now), actor=None, now=self.now
        )

    def credit(self, number: int) -> None:
        """All of an invoice, or a part of a line."""
        invoice = self._invoice(number)
        parts = {1 + number % 2: Decimal(number) / 100} if number < 7 else None
        services.credit_note_issue(invoice_id=invoice.id, parts=parts, reason="so", actor=None, now=self.now)

    def void(self, number: int) -> None:
        """An invoice is undone."""
        services.invoice_void(invoice_id=self._invoice(number).id, reason="so", actor=None, now=self.now)

    def write_off(self, number: int) -> None:
        """What is open is given up."""
        services.invoice_write_off(invoice_id=self._invoice(number).id, reason="so", actor=None, now=self.now)

    def refund(self, number: int) -> None:
        """A part of the balance goes back."""
        share = (balance_of(self.cast.organisation.id, "EUR") * (number + 1) / 8).quantize(Decimal("0.01"))
        services.balance_refund(
            organisation=self.cast.organisation, amount=share, currency="EUR", reference="so",
            idempotency_key=str(self.now), actor=None, now=self.now,
        )  # fmt: skip

    def _invoice(self, number: int) -> Invoice:
        """Mostly one that waits for money, else any."""
        wanted = {"open__gt": 0} if number < 8 and Invoice.objects.filter(open__gt=0).exists() else {}
        found: Invoice = self._one(Invoice, number, **wanted)
        return found

    def _one(self, model: Any, number: int, **wanted: Any) -> Any:
        """One of those that are there. Raises Problem when there is none."""
        known = list(model.objects.filter(organisation=self.cast.organisation, **wanted).order_by("pk"))
        if not known:
            raise Problem(409, "Nothing there", "There is none.")
        return known[number % len(known)]


def _books_agree(cast: Cast) -> None:
    """Every account by what it stands for, and every check that the database makes at a commit."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    full, now = reconcile_all(cast.organisation), balances(cast.organisation.id)
    assert full.differences == []
    assert exact_sum(now.values()) == 0
    assert balance(now, "accrued") == exact_sum([*full.open.values(), carried_open(cast.organisation, "EUR")])
    assert balance(now, "receivable") == exact_sum(Invoice.objects.values_list("open", flat=True))
    left = credits_of(cast.organisation, currency="EUR")
    assert balance(now, "credit") == exact_sum(one.left for one in left).copy_negate()
    assert all(one.left >= 0 for one in left)
    assert balance(now, "prepaid") <= 0
    standing = InvoiceLine.objects.exclude(invoice__state="void").values_list("amount", flat=True)
    assert exact_sum([*standing, *full.open.values()]) == exact_sum(UsageRow.objects.values_list("amount", flat=True))


def _papers_agree(cast: Cast, now: datetime) -> None:
    """Lines sum to the total, and the rows of the cost export to what is asked for and taken back."""
    billed: defaultdict[str | None, list[Decimal]] = defaultdict(list)
    for row in focus_rows(organisation=cast.organisation, start=NOW - DAY, end=now + DAY):
        billed[row["InvoiceId"]].append(row["BilledCost"])
    for invoice in Invoice.objects.all():
        document = invoice.document
        shares = [Decimal(one["share"]) for one in [*document["lines"], *document.get("adjustments", [])]]
        assert exact_sum([*shares, Decimal(document["carried_in_share"])]) == invoice.payable
        assert exact_sum(billed[invoice.number]) == invoice.due
    for note in CreditNote.objects.all():
        assert exact_sum(billed[note.number]) == -note.total
    assert exact_sum(billed[None]) == exact_sum(reconcile_all(cast.organisation).open.values())


@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=12, max_size=25), tax=st.sampled_from(["0", "0.19", "0.077"]))
def test_whatever_happens_in_any_order_everything_agrees(cast: Cast, steps: list[tuple[str, int]], tax: str) -> None:
    with transaction.atomic():
        machine = Machine(cast, open_market(devices=6, change=_book))
        BillingProfile.objects.create(organisation=cast.organisation, tax_rate=Decimal(tax))
        for name, number in [("sell", 1), ("issue", 9), ("issue", 3), *steps]:
            machine.step(name, number)
            _books_agree(cast)
        _papers_agree(cast, machine.now)
        assert Transaction.objects.count() > 1
        transaction.set_rollback(True)
