"""Whatever is done with a customer's money, in any order: the books, the invoices and the cost export agree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
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
from apps.collection.pull import _paid
from apps.collection.refunds import OUTCOMES, _move
from apps.invoicing import services
from apps.invoicing.adjustments import credits_left
from apps.invoicing.drafting import carried_open
from apps.invoicing.focus import focus_rows
from apps.invoicing.models import (
    BillingProfile,
    CreditGrant,
    CreditNote,
    CreditNoteLine,
    DisputeState,
    FactKind,
    Invoice,
    InvoiceLine,
    StripeFact,
)
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services.settling import balance_of
from apps.ledger.models import AccountKind, Transaction, UsageRow
from apps.ledger.selectors import balances, month_of
from apps.pricing.rating import exact_sum
from apps.pricing.rating.decimals import subtract
from apps.pricing.services import pricebook_publish
from apps.reports.revenue import revenue
from apps.sales.models import Contract, ContractState, FormName
from apps.sales.services import QuoteLine, contract_end, quote_accept, quote_create
from apps.sales.volumes import Form
from tests.cast import Cast
from tests.pricing.rating.books import document
from tests.sales.market import NOW, Market, open_market
from tests.sales.test_contracts import run
from tests.tiers import some

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)
VOLUMES = (1, 700, 1500, 90_000, 1_234_567)
ACTS = (
    "sell",
    "run",
    "run",
    "end",
    "grant",
    "end_credit",
    "issue",
    "issue",
    "pay",
    "card",
    "refunded",
    "dispute",
    "dispute",
    "credit",
    "void",
    "write_off",
    "refund",
    "tax",
    "later",
    "month",
)
STEPS = st.tuples(st.sampled_from(ACTS), st.integers(0, 9))
# Each from its day on: the places of its smallest unit, and the price of a tera-operation.
CURRENCIES = {"EUR": (2, "0.008"), "KWD": (3, "0.0008"), "JPY": (0, "0.8")}


def _book(code: str) -> Callable[[dict[str, Any]], None]:
    exponent, price = CURRENCIES[code]

    def change(document: dict[str, Any]) -> None:
        document["version"] = 1 + list(CURRENCIES).index(code)
        document["currency"] = {"code": code, "exponent": exponent}
        document["prices"]["lpu"]["float32"] = price
        document["classes"]["guaranteed"]["offered"] = True
        if code != "JPY":
            for name in ("standard", "guaranteed"):
                document["classes"][name]["late_cancellation"] = {"notice_minutes": 30, "share": "0.4"}
        document["free_tera_operations"] = "50"
        document["minimum_charge"] = str(Decimal(price) * 500)

    return change


def _market() -> Market:
    """Three books, each a day after the one before."""
    market = open_market(devices=6, change=_book("EUR"))
    for day, code in enumerate(list(CURRENCIES)[1:], 1):
        pricebook_publish(
            document=document(_book(code)), effective_from=NOW + day * DAY, now=market.book.effective_from
        )
    return market


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
                "klass": "guaranteed",
                "form": Form(FormName.INTERVAL, Fraction(1)),
                "window": (start, start + timedelta(hours=1)),
            }
        volume = 700 if "form" in asked else 10 * VOLUMES[4]
        quote = quote_create(
            organisation=self.cast.organisation,
            lines=[QuoteLine(self.program, volume)],
            pool=self.market.lpu,
            actor=None,
            now=self.now,
            **asked,
        )
        quote_accept(quote_id=quote.id, organisation=self.cast.organisation, actor=self.cast.owner, now=self.now)

    def run(self, number: int) -> None:
        """A lease of one of the contracts."""
        run(self._one(Contract, number, state=ContractState.ACTIVE), VOLUMES[number % 5], now=self.now)

    def end(self, number: int) -> None:
        """The rest is given up, or charged as unused."""
        contract = self._one(Contract, number, state=ContractState.ACTIVE)
        contract_end(contract_id=contract.id, organisation=self.cast.organisation, actor=self.cast.owner, now=self.now)

    def grant(self, number: int) -> None:
        """A credit in one of the currencies, some of which expire."""
        code = list(CURRENCIES)[number % 3]
        exponent, price = CURRENCIES[code]
        amount = (Decimal(price) * 100 * (number + 1)).quantize(Decimal(1).scaleb(-exponent))
        services.grant_create(
            organisation=self.cast.organisation,
            amount=amount,
            currency=code,
            reason="so",
            actor=None,
            expires_at=self.now + timedelta(minutes=3) if number % 2 else None,
            idempotency_key=str(self.now),
            now=self.now,
        )
        services.grants_expire(now=self.now)

    def end_credit(self, number: int) -> None:
        """What is left of a credit was a mistake."""
        services.grant_end(grant_id=self._one(CreditGrant, number).id, reason="so", actor=None, now=self.now)

    def issue(self, number: int) -> None:
        """An invoice over everything until now in a currency; half the time something was used just before."""
        if number % 2:
            self.run(number)
            self.now += timedelta(seconds=2)
        code = list(CURRENCIES)[number % 3] if number > 5 else None
        services.invoice_issue(organisation=self.cast.organisation, currency=code, actor=None, now=self.now)

    def month(self, number: int) -> None:
        """The month ends: its invoices, with the minimum charge."""
        self.now = month_of(self.now)[1] + timedelta(hours=1)
        services.invoices_issue_month(now=self.now)

    def later(self, number: int) -> None:
        """Another day, perhaps with another price book."""
        self.now += DAY

    def tax(self, number: int) -> None:
        """Invoices from now on have another tax."""
        rate = Decimal(number) / 50
        BillingProfile.objects.filter(organisation=self.cast.organisation).update(tax_rate=rate)

    def pay(self, number: int) -> None:
        """Less, all or more than is open."""
        invoice, unit = self._unit(number)
        amount = (invoice.open * (number % 4 + 1) / 3).quantize(unit) + unit
        services.invoice_mark_paid(
            invoice_id=invoice.id, amount=amount, reference=str(self.now), actor=None, now=self.now
        )

    def card(self, number: int) -> None:
        """What is open, by card."""
        invoice, unit = self._unit(number)
        _paid(invoice, f"pi_{self.now.timestamp():.0f}", int(invoice.open / unit), now=self.now)

    def refunded(self, number: int) -> None:
        """A part of what a card paid goes back at our cost; now and then the refund comes back."""
        fact = self._fact(FactKind.PAID, number)
        reference, minor = f"re_{fact.reference}_{number}", 1 + number
        _move(fact.invoice, FactKind.REFUNDED, reference, minor, AccountKind.REFUND, AccountKind.BANK, self.now)
        if number % 2:
            kind = FactKind.REFUND_FAILED
            _move(fact.invoice, kind, reference, minor, AccountKind.BANK, AccountKind.PREPAID, self.now)

    def dispute(self, number: int) -> None:
        """What a card paid is withdrawn; once more for the same, it is won or lost."""
        fact = self._fact(FactKind.PAID, number)
        invoice, reference = fact.invoice, f"du_{fact.reference}"
        minor = int(fact.amount.scaleb(invoice.exponent))
        if _move(invoice, FactKind.DISPUTED, reference, minor, AccountKind.DISPUTED, AccountKind.BANK, self.now):
            services.invoice_dispute(invoice_id=invoice.id, outcome=DisputeState.OPEN, now=self.now)
            return
        known = StripeFact.objects.filter(kind__in=[FactKind.DISPUTE_WON, FactKind.DISPUTE_LOST], reference=reference)
        if not known.exists():
            kind, outcome, account = OUTCOMES["won" if number % 2 else "lost"]
            _move(invoice, kind, reference, minor, account, AccountKind.DISPUTED, self.now)
            services.invoice_dispute(invoice_id=invoice.id, outcome=outcome, now=self.now)

    def credit(self, number: int) -> None:
        """All of an invoice, or a part of a line."""
        invoice, unit = self._unit(number)
        parts = {1 + number % 2: number * unit} if number < 7 else None
        services.credit_note_issue(invoice_id=invoice.id, parts=parts, reason="so", actor=None, now=self.now)

    def void(self, number: int) -> None:
        """An invoice is undone."""
        services.invoice_void(invoice_id=self._invoice(number).id, reason="so", actor=None, now=self.now)

    def write_off(self, number: int) -> None:
        """What is open is given up."""
        services.invoice_write_off(invoice_id=self._invoice(number).id, reason="so", actor=None, now=self.now)

    def refund(self, number: int) -> None:
        """A part of the balance goes back."""
        code = list(CURRENCIES)[number % 3]
        unit = Decimal(1).scaleb(-CURRENCIES[code][0])
        share = (balance_of(self.cast.organisation.id, code) * (number + 1) / 8).quantize(unit)
        services.balance_refund(
            organisation=self.cast.organisation,
            amount=share,
            currency=code,
            reference="so",
            idempotency_key=str(self.now),
            actor=None,
            now=self.now,
        )

    def _unit(self, number: int) -> tuple[Invoice, Decimal]:
        """An invoice, and the smallest unit of its currency."""
        invoice = self._invoice(number)
        return invoice, Decimal(1).scaleb(-invoice.exponent)

    def _fact(self, kind: FactKind, number: int) -> StripeFact:
        known = list(StripeFact.objects.filter(kind=kind).select_related("invoice").order_by("id"))
        if not known:
            raise Problem(409, "Nothing there", "There is none.", kind="nothing-to-cancel")
        return known[number % len(known)]

    def _invoice(self, number: int) -> Invoice:
        """Mostly one that waits for money, else any."""
        wanted = {"open__gt": 0} if number < 8 and Invoice.objects.filter(open__gt=0).exists() else {}
        found: Invoice = self._one(Invoice, number, **wanted)
        return found

    def _one(self, model: Any, number: int, **wanted: Any) -> Any:
        """One of those that are there. Raises Problem when there is none."""
        known = list(model.objects.filter(organisation=self.cast.organisation, **wanted).order_by("pk"))
        if not known:
            raise Problem(409, "Nothing there", "There is none.", kind="nothing-to-cancel")
        return known[number % len(known)]


def _books_agree(cast: Cast, now: datetime) -> None:
    """Every account by what it stands for, currency by currency, and every check that the database makes at a commit."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    full, kept = reconcile_all(cast.organisation), balances(cast.organisation.id)
    assert full.differences == []
    left = credits_left(cast.organisation)
    assert all(one.left >= 0 for one in left)
    for code in CURRENCIES:
        held = {kind: amount for (kind, currency), amount in kept.items() if currency == code}
        nothing = Decimal(0)
        assert exact_sum(held.values()) == 0
        waiting = [full.open.get(code, nothing), carried_open(cast.organisation, code)]
        assert held.get("accrued", nothing) == exact_sum(waiting)
        invoices, notes = Invoice.objects.filter(currency=code), CreditNote.objects.filter(currency=code)
        assert held.get("receivable", nothing) == _sum(invoices, "open")
        of_currency = [one.left for one in left if one.grant.currency == code]
        assert held.get("credit", nothing) == exact_sum(of_currency).copy_negate()
        assert held.get("prepaid", nothing) <= 0
        used = _sum(UsageRow.objects.filter(currency=code), "amount")
        standing = InvoiceLine.objects.filter(invoice__currency=code).exclude(invoice__state="void")
        assert exact_sum([_sum(standing, "amount"), full.open.get(code, nothing)]) == used
        # What was asked for less what was taken back: as money that came or is to come, as tax, and as income.
        asked = [subtract(_sum(invoices, one), _sum(notes, other)) for one, other in PAPERS]
        for accounts, amount in zip((MONEY_SIDE, ("tax",), INCOME_SIDE), asked, strict=True):
            sign = 1 if accounts is MONEY_SIDE else -1
            assert exact_sum(held.get(one, nothing) for one in accounts) == sign * amount, (code, accounts)
        assert _revenue(code, now, "amount") == used
        # What the page calls net is the ledger's own account, but for what was paid to be kept and not used.
        kept_unused = [_sum(UsageRow.objects.filter(currency=code, unused=True), "amount")]
        taken = CreditNoteLine.objects.filter(credit_note__currency=code, line__kind__in=["unused", "late"])
        kept_unused += [_sum(taken.exclude(credit_note__invoice__state="void"), "amount").copy_negate()]
        assert exact_sum([_revenue(code, now, "net"), held.get("revenue", nothing)]) == exact_sum(kept_unused)


PAPERS = (("due", "total"), ("tax", "tax"), ("payable", "net"))
MONEY_SIDE = ("receivable", "bank", "prepaid", "bad_debt", "refund", "disputed")
INCOME_SIDE = ("revenue", "breakage", "promotion", "credit", "rounding", "accrued")


def _sum(rows: Any, name: str) -> Decimal:
    return exact_sum(rows.order_by().values_list(name, flat=True))


def _revenue(code: str, now: datetime, figure: str) -> Decimal:
    """What the administrator's page says of every month."""
    found, month = [], NOW
    while month <= now:
        found.append(getattr(revenue(month=month, currency=code, now=now).whole, figure))
        month = month_of(month)[1]
    return exact_sum(found)


def _papers_agree(cast: Cast, now: datetime) -> None:
    """Lines sum to the total, and the rows of the cost export to what is asked for and taken back."""
    billed: defaultdict[tuple[str | None, str], list[Decimal]] = defaultdict(list)
    for row in focus_rows(organisation=cast.organisation, start=NOW - DAY, end=now + DAY):
        billed[row["InvoiceId"], row["BillingCurrency"]].append(row["BilledCost"])
    for invoice in Invoice.objects.all():
        document = invoice.document
        shares = [Decimal(one["share"]) for one in [*document["lines"], *document.get("adjustments", [])]]
        assert exact_sum([*shares, Decimal(document["carried_in_share"])]) == invoice.payable
        assert exact_sum(billed[invoice.number, invoice.currency]) == invoice.due
    for note in CreditNote.objects.all():
        assert exact_sum(billed[note.number, note.currency]) == -note.total
    still = reconcile_all(cast.organisation).open
    assert {code: exact_sum(billed[None, code]) for code in CURRENCIES} == {
        code: still.get(code, Decimal(0)) for code in CURRENCIES
    }


@settings(max_examples=some(3), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, min_size=12, max_size=25), tax=st.sampled_from(["0", "0.19", "0.077"]))
def test_whatever_happens_in_any_order_everything_agrees(cast: Cast, steps: list[tuple[str, int]], tax: str) -> None:
    with transaction.atomic():
        machine = Machine(cast, _market())
        BillingProfile.objects.create(organisation=cast.organisation, tax_rate=Decimal(tax))
        for name, number in [("sell", 1), ("issue", 9), ("issue", 3), *steps]:
            machine.step(name, number)
            _books_agree(cast, machine.now)
        _papers_agree(cast, machine.now)
        assert Transaction.objects.count() > 1
        transaction.set_rollback(True)
