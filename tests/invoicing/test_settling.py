"""What is open of invoices: payments in parts and beyond, credit notes, void, write-off, reminders; the books agree."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from django.core import mail
from django.db import IntegrityError, connection, transaction
from django.test import Client

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.figures import money_format
from apps.invoicing.mails import invoice_mail
from apps.invoicing.models import BillingProfile, CreditNote, DunningStep, Invoice, Payment, Settlement
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import (
    credit_note_issue,
    dunning_run,
    invoice_collect,
    invoice_issue,
    invoice_mark_paid,
    invoice_void,
    invoice_write_off,
    payment_failed,
    payment_record,
)
from apps.invoicing.services.settling import balance_of
from apps.ledger.models import OutboxRow
from apps.ledger.selectors import balances, chain_verify
from apps.pricing.rating import digest_of, exact_sum
from tests.cast import Cast
from tests.ledger.money import balance
from tests.sales.market import NOW, Market
from tests.sales.test_contracts import run, sold

pytestmark = pytest.mark.django_db
MILLION = 10**6  # executions of the market's program cost 5.632 EUR
LATER = NOW + timedelta(minutes=5)


def _invoice(cast: Cast, market: Market, *, tax: str = "0", lines: int = 1) -> Invoice:
    """An invoice over `lines` contracts of 5.632 EUR each."""
    profile, _ = BillingProfile.objects.get_or_create(organisation=cast.organisation)
    profile.tax_rate = Decimal(tax)
    profile.save()
    for _ in range(lines):
        run(sold(cast, market, executions=MILLION), MILLION)
    now = LATER + timedelta(minutes=Invoice.objects.count())
    return invoice_issue(organisation=cast.organisation, actor=None, now=now)


def _pay(cast: Cast, invoice: Invoice, amount: str, reference: str) -> Invoice:
    return invoice_mark_paid(
        invoice_id=invoice.id, amount=Decimal(amount), reference=reference, actor=cast.admin, now=LATER
    )


def _kind(cast: Cast, kind: str) -> Decimal:
    return balance(balances(cast.organisation.id), kind)


def _books_agree(cast: Cast) -> None:
    """Receivable is what is open, every account together nothing, and the deferred checks of the database hold."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
    assert _kind(cast, "receivable") == exact_sum(Invoice.objects.values_list("open", flat=True))
    assert exact_sum(balances(cast.organisation.id).values()) == 0
    assert _kind(cast, "prepaid") <= 0


def test_parts_settle_and_what_is_beyond_is_taken_by_the_next_invoice(cast: Cast, market: Market) -> None:
    invoice = _invoice(cast, market)
    assert _pay(cast, invoice, "2.00", "a").state == "issued"
    assert _pay(cast, invoice, "2.00", "a").open == Decimal("3.63"), "the same reference is the same payment"
    paid = _pay(cast, invoice, "10.00", "b")
    assert (paid.state, paid.open, _kind(cast, "prepaid")) == ("paid", 0, Decimal("-6.37"))
    with pytest.raises(Problem, match="is paid"):
        _pay(cast, invoice, "1.00", "c")
    following = _invoice(cast, market)
    assert (following.state, following.open, _kind(cast, "prepaid")) == ("paid", 0, Decimal("-0.74"))
    _books_agree(cast)


def test_one_key_is_one_payment(cast: Cast, market: Market) -> None:
    _invoice(cast, market)
    given: dict[str, Any] = {
        "organisation": cast.organisation,
        "currency": "EUR",
        "provider": "bank-transfer",
        "reference": "r",
        "idempotency_key": "k",
        "actor": None,
        "now": LATER,
    }
    assert payment_record(amount=Decimal(3), **given) == payment_record(amount=Decimal(3), **given)
    with pytest.raises(Problem, match="already recorded for"):
        payment_record(amount=Decimal(4), **given)
    assert Payment.objects.count() == 1


def test_a_whole_credit_note_reverses_an_invoice_to_the_last_digit(cast: Cast, market: Market) -> None:
    invoice = _invoice(cast, market, tax="0.19", lines=3)
    assert (invoice.payable, invoice.tax) == (Decimal("16.90"), Decimal("3.21"))
    first = credit_note_issue(invoice_id=invoice.id, parts={1: Decimal("1.01")}, reason="slow", actor=None, now=LATER)
    rest = credit_note_issue(invoice_id=invoice.id, reason="wrong", actor=None, now=LATER)
    assert [first.number, rest.number] == ["C-2026-000001", "C-2026-000002"]
    assert (exact_sum([first.net, rest.net]), exact_sum([first.tax, rest.tax])) == (invoice.payable, invoice.tax)
    assert digest_of(rest.document) == rest.digest
    assert all(_kind(cast, kind) == 0 for kind in ("revenue", "tax", "receivable"))
    assert exact_sum([_kind(cast, "rounding"), _kind(cast, "accrued")]) == 0, "what rounding carried on stays carried"
    with pytest.raises(Problem, match="has nothing left to credit"):
        credit_note_issue(invoice_id=invoice.id, reason="again", actor=None, now=LATER)
    _books_agree(cast)


def test_a_credit_note_on_a_paid_invoice_is_the_customers_balance(cast: Cast, market: Market) -> None:
    invoice = _invoice(cast, market)
    _pay(cast, invoice, "5.63", "a")
    credit_note_issue(invoice_id=invoice.id, parts={1: Decimal("2.00")}, reason="late", actor=None, now=LATER)
    assert _kind(cast, "prepaid") == Decimal("-2")
    for amount, said in (("3.64", r"At most €\u202f3\.63"), ("-1", r"At most €\u202f3\.63"), ("0.001", r"write 0\.01")):
        with pytest.raises(Problem, match=said):
            credit_note_issue(invoice_id=invoice.id, parts={1: Decimal(amount)}, reason="x", actor=None, now=LATER)
    _books_agree(cast)


def test_void_and_write_off_end_an_invoice(cast: Cast, market: Market) -> None:
    first, second = _invoice(cast, market), _invoice(cast, market)
    assert invoice_void(invoice_id=first.id, reason="wrong address", actor=None, now=LATER).state == "void"
    assert CreditNote.objects.get().total == first.due
    third = invoice_issue(organisation=cast.organisation, actor=None, now=LATER + timedelta(hours=1))
    assert (third.net, third.period_start) == (first.net, first.period_start), "its usage is invoiced again"
    assert [line["usage"] for line in third.document["lines"]] == [line["usage"] for line in first.document["lines"]]
    _pay(cast, third, "5.63", "b")
    _pay(cast, second, "1.00", "a")
    with pytest.raises(Problem, match="has already been settled"):
        invoice_void(invoice_id=second.id, reason="x", actor=None, now=LATER)
    written = invoice_write_off(invoice_id=second.id, reason="insolvent", actor=cast.admin, now=LATER)
    assert (written.state, written.open, _kind(cast, "bad_debt")) == ("written_off", 0, Decimal("4.63"))
    with pytest.raises(Problem, match="written off"):
        credit_note_issue(invoice_id=second.id, reason="x", actor=None, now=LATER)
    _books_agree(cast)
    assert reconcile_all(cast.organisation).differences == []
    assert chain_verify(cast.organisation.id).intact


def test_what_comes_for_a_written_off_invoice_takes_back_bad_debt(cast: Cast, market: Market) -> None:
    invoice = _invoice(cast, market)
    _pay(cast, invoice, "1.00", "a")
    invoice_write_off(invoice_id=invoice.id, reason="insolvent", actor=cast.admin, now=LATER)
    assert _pay(cast, invoice, "2.00", "b").state == "written_off"
    assert (_kind(cast, "bad_debt"), _kind(cast, "prepaid")) == (Decimal("2.63"), 0)
    assert _pay(cast, invoice, "2.00", "b").state == "written_off", "one reference is one payment"
    paid = _pay(cast, invoice, "3.00", "c")
    assert (paid.state, paid.paid_at, paid.open) == ("paid", LATER, 0)
    assert (_kind(cast, "bad_debt"), _kind(cast, "prepaid"), _kind(cast, "bank")) == (0, Decimal("-0.37"), 6)
    with pytest.raises(Problem, match="is paid"):
        _pay(cast, invoice, "1.00", "d")
    _books_agree(cast)


def test_reminders_come_one_by_one_and_stop_when_paid(cast: Cast, market: Market) -> None:
    invoice = _invoice(cast, market)
    due = invoice.due_at
    assert dunning_run(now=due) == 0
    assert [dunning_run(now=due + timedelta(days=day)) for day in (1, 2, 3, 3, 40, 41, 47, 60)] == [
        1,
        0,
        1,
        0,
        1,
        0,
        0,
        1,
    ]
    assert list(DunningStep.objects.values_list("level", flat=True)) == [1, 2, 3]
    rows = list(OutboxRow.objects.filter(topic="invoice.reminder").order_by("id"))
    for row in rows:
        invoice_mail(row, now=LATER)
    assert [letter.subject for letter in mail.outbox] == [f"Reminder {n}: invoice {invoice.number}" for n in (1, 2, 3)]
    assert (mail.outbox[0].to, "5.63" in mail.outbox[0].body) == ([cast.billing.email, cast.owner.email], True)
    assert invoice_collect(invoice_id=invoice.id, actor=cast.admin, now=due + timedelta(days=70)).state == "collection"
    assert _pay(cast, invoice, "5.63", "a").state == "paid"
    assert dunning_run(now=due + timedelta(days=99)) == 0
    invoice_mail(rows[0], now=LATER)
    assert len(mail.outbox) == 3, "nobody is reminded of what is paid"


def test_a_failed_collection_is_overdue_at_once(cast: Cast, market: Market) -> None:
    invoice = _invoice(cast, market)
    assert payment_failed(invoice_id=invoice.id, reason="card declined", now=LATER).state == "overdue"
    with pytest.raises(Problem, match="after its last reminder"):
        invoice_collect(invoice_id=invoice.id, actor=cast.admin, now=LATER)


def test_the_database_refuses_an_open_sum_that_nothing_explains(cast: Cast, market: Market) -> None:
    invoice = _invoice(cast, market)
    _books_agree(cast)
    with transaction.atomic():
        Invoice.objects.filter(pk=invoice.pk).update(open=Decimal(1))
        with pytest.raises(IntegrityError, match="is not what is due"):
            _books_agree(cast)
        transaction.set_rollback(True)
    _pay(cast, invoice, "1.00", "a")
    with pytest.raises(IntegrityError, match="only ever added"), transaction.atomic():
        Settlement.objects.update(amount=2)
    with pytest.raises(IntegrityError, match="profile_tax_scheme_fits"), transaction.atomic():
        BillingProfile.objects.update(tax_scheme="reverse_charge")


def test_whatever_is_paid_and_credited_in_any_order_the_books_agree(cast: Cast, market: Market) -> None:
    dice = random.Random(2026)
    for number in range(6):
        invoice = _invoice(cast, market, tax=dice.choice(["0", "0.19", "0.077"]), lines=dice.randrange(1, 4))
        for step in range(4):
            cents = Decimal(dice.randrange(1, 900)).scaleb(-2)
            try:
                if dice.random() < 0.5:
                    _pay(cast, invoice, str(cents), f"{number}.{step}")
                else:
                    line = dice.randrange(1, 4)
                    credit_note_issue(invoice_id=invoice.id, parts={line: cents}, reason="x", actor=None, now=LATER)
            except Problem:
                continue
            finally:
                _books_agree(cast)
    for invoice in Invoice.objects.all():
        try:
            credit_note_issue(invoice_id=invoice.id, reason="all of it", actor=None, now=LATER)
        except Problem:
            continue
    _books_agree(cast)
    assert [_kind(cast, kind) for kind in ("revenue", "tax", "receivable")] == [0, 0, 0]
    assert exact_sum([_kind(cast, "rounding"), _kind(cast, "accrued")]) == 0
    assert _kind(cast, "prepaid") == exact_sum(Payment.objects.values_list("amount", flat=True)).copy_negate()


@pytest.mark.parametrize("balance", ["2.00", "20.00"])
def test_a_void_invoice_gives_the_balance_back_that_it_took(cast: Cast, market: Market, balance: str) -> None:
    payment_record(
        organisation=cast.organisation,
        amount=Decimal(balance),
        currency="EUR",
        provider="bank-transfer",
        reference="ahead",
        idempotency_key="a",
        actor=None,
        now=LATER,
    )
    invoice = _invoice(cast, market, tax="0.19")
    taken = min(Decimal(balance), invoice.due)
    assert (invoice.open, _kind(cast, "prepaid")) == (invoice.due - taken, taken - Decimal(balance))
    invoice = invoice_void(invoice_id=invoice.id, reason="wrong address", actor=None, now=LATER)
    invoice.refresh_from_db()
    assert (invoice.state, invoice.open, invoice.paid_at) == ("void", 0, None)
    assert _kind(cast, "prepaid") == -Decimal(balance)
    assert _kind(cast, "receivable") == 0
    _books_agree(cast)
    assert reconcile_all(cast.organisation).differences == []
    again = invoice_issue(organisation=cast.organisation, actor=None, now=LATER + timedelta(minutes=9))
    assert (again.due, again.due - again.open) == (invoice.due, taken)
    part = _pay(cast, again, str(again.open), "b") if again.open else again
    if taken < part.due:  # money that came is no balance: such an invoice is credited instead
        with pytest.raises(Problem, match=r"has already been settled\. Issue a credit note"):
            invoice_void(invoice_id=part.id, reason="x", actor=None, now=LATER)
    _books_agree(cast)
    assert reconcile_all(cast.organisation).differences == []


def test_a_list_of_invoices_says_what_is_open_and_what_was_only_credited(
    cast: Cast, market: Market, as_user: Callable[[User], Client]
) -> None:
    """Paid, credited, void, and one that the balance paid in part: total and open apart, each called what it is."""
    paid, credited, void = (_invoice(cast, market) for _ in range(3))
    assert str(balance_of(cast.organisation.id, "EUR")) == "0"
    invoice_void(invoice_id=void.id, reason="wrong", actor=None, now=LATER)
    credit_note_issue(invoice_id=credited.id, reason="wrong", actor=None, now=LATER)
    _pay(cast, paid, "7.63", "2.00 too much")
    part = _invoice(cast, market)  # with the usage of the one that is void
    client = as_user(cast.owner)
    wanted = {paid: "paid", credited: "credited", void: "void", part: "issued"}
    for invoice in wanted:
        invoice.refresh_from_db()
    assert [one.open for one in wanted][:3] == [0, 0, 0]
    assert part.open == part.due - (Decimal("7.63") - paid.due) > 0
    for address in ("/invoices", "/portal"):
        page = unescape(client.get(address).content.decode())
        for invoice, state in wanted.items():
            row = page.split(f">{invoice.number}</a>")[1].split("</tr>")[0]
            assert f"{state}</span>" in row, row
            assert row.count(f">{money_format(invoice.due, 'EUR')}<") == 1
            assert row.count(f">{money_format(invoice.open, 'EUR')}<") == 1
        assert "To pay" not in page
    pages = {one: unescape(client.get(f"/invoices/{one.pk}").content.decode()) for one in wanted}
    assert all(
        "nothing was paid" in page if one == credited else "nothing was paid" not in page for one, page in pages.items()
    )
    assert as_user(cast.admin).get(f"/customers/invoices/{credited.pk}").content.decode().count("nothing was paid") == 1
