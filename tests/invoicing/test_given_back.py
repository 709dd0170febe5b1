"""Money that went back, by a lost dispute or a refund, and credit notes of the same invoice: never twice, in any order."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from html import unescape

import pytest
from django.db import transaction
from django.test import Client

from apps.accounts.models import AuditEntry, User
from apps.accounts.problems import Problem
from apps.collection.pull import fact_record
from apps.collection.refunds import _move
from apps.invoicing.models import CreditNote, DisputeState, FactKind, Invoice
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import (
    balance_refund,
    credit_note_issue,
    invoice_dispute,
    payment_record,
)
from apps.ledger.models import AccountKind, OutboxRow
from apps.pricing.rating import exact_sum
from tests.cast import Cast
from tests.invoicing.test_settling import _books_agree, _invoice, _kind, _pay
from tests.sales.market import NOW, Market

pytestmark = pytest.mark.django_db
MILLION = 10**6  # executions of the market's program cost 5.632 EUR
LATER = NOW + timedelta(minutes=5)


def test_what_a_lost_dispute_gave_back_is_not_credited_again(cast: Cast, market: Market) -> None:
    invoice = _pay(cast, _invoice(cast, market, tax="0.19"), "6.70", "pi_1")
    bank, disputed = AccountKind.BANK, AccountKind.DISPUTED

    def moved(kind: FactKind, to: AccountKind, source: AccountKind, outcome: DisputeState) -> None:
        with transaction.atomic():
            _move(invoice, kind, "du_1", 500, to, source, LATER)
        invoice_dispute(invoice_id=invoice.id, outcome=outcome, now=LATER)

    def credited(parts: dict[int, Decimal] | None) -> CreditNote:
        return credit_note_issue(invoice_id=invoice.id, parts=parts, reason="wrong", actor=None, now=LATER)

    moved(FactKind.DISPUTED, disputed, bank, DisputeState.OPEN)
    with pytest.raises(Problem, match=r"is disputed\. Issue the credit note after the dispute has been decided"):
        credited(None)
    moved(FactKind.DISPUTE_LOST, AccountKind.BAD_DEBT, disputed, DisputeState.LOST)
    assert (_kind(cast, "bad_debt"), _kind(cast, "prepaid")) == (5, 0)
    assert credited({1: Decimal("2.00")}).total == Decimal("2.38")
    assert (_kind(cast, "bad_debt"), _kind(cast, "prepaid")) == (Decimal("2.62"), 0)
    assert credited(None).total == Decimal("4.32")
    assert (_kind(cast, "bad_debt"), _kind(cast, "prepaid")) == (0, Decimal("-1.70"))
    assert [_kind(cast, kind) for kind in ("revenue", "tax")] == [0, 0]
    assert exact_sum([_kind(cast, "rounding"), _kind(cast, "accrued")]) == 0, "what rounding carried on stays carried"
    _books_agree(cast)
    assert reconcile_all(cast.organisation).differences == []


def _disputed(invoice: Invoice, reference: str, minor: int) -> None:
    """The payer's bank takes it back, and that stays so."""
    bank, disputed, lost = AccountKind.BANK, AccountKind.DISPUTED, AccountKind.BAD_DEBT
    for kind, to, source, outcome in (
        (FactKind.DISPUTED, disputed, bank, DisputeState.OPEN),
        (FactKind.DISPUTE_LOST, lost, disputed, DisputeState.LOST),
    ):
        with transaction.atomic():
            assert _move(invoice, kind, reference, minor, to, source, LATER)
            assert not _move(invoice, kind, reference, minor, to, source, LATER), "an event may come twice"
        invoice_dispute(invoice_id=invoice.id, outcome=outcome, now=LATER)


def _refunded(invoice: Invoice, reference: str, minor: int, kind: FactKind = FactKind.REFUNDED) -> None:
    """From Stripe's desk, without a word about the balance; or such a refund comes back."""
    ways = {
        FactKind.REFUNDED: (AccountKind.REFUND, AccountKind.BANK),
        FactKind.REFUND_FAILED: (AccountKind.BANK, AccountKind.PREPAID),
    }
    with transaction.atomic():
        assert _move(invoice, kind, reference, minor, *ways[kind], LATER)


def test_a_refund_that_failed_is_paid_again_out_of_the_balance(cast: Cast, market: Market) -> None:
    invoice = _pay(cast, _invoice(cast, market), "5.63", "pi_1")
    _refunded(invoice, "re_1", 200)
    _refunded(invoice, "re_1", 200, FactKind.REFUND_FAILED)
    assert (_kind(cast, "refund"), _kind(cast, "prepaid")) == (2, -2)
    _refunded(invoice, "re_2", 300)
    assert (_kind(cast, "refund"), _kind(cast, "prepaid"), _kind(cast, "bank")) == (3, 0, Decimal("2.63"))
    credit_note_issue(invoice_id=invoice.id, reason="wrong", actor=None, now=LATER)
    assert (_kind(cast, "refund"), _kind(cast, "prepaid"), _kind(cast, "bank")) == (
        0,
        Decimal("-2.63"),
        Decimal("2.63"),
    )
    _books_agree(cast)
    assert reconcile_all(cast.organisation).differences == []


@pytest.mark.parametrize("first", ["note", "money"])
@pytest.mark.parametrize("minor", [670, 500, 100])
@pytest.mark.parametrize("account", ["bad_debt", "refund"])
def test_a_note_and_money_that_is_given_back_come_to_the_same_in_either_order(
    cast: Cast, market: Market, first: str, minor: int, account: str
) -> None:
    """By a dispute that is lost, or by a refund to the card: the customer never has it twice."""
    invoice = _pay(cast, _invoice(cast, market, tax="0.19"), "6.70", "pi_1")
    acts = [
        lambda: credit_note_issue(
            invoice_id=invoice.id, parts={1: Decimal("2.00")}, reason="wrong", actor=None, now=LATER
        ),
        lambda: (_disputed if account == "bad_debt" else _refunded)(invoice, "x_1", minor),
    ]
    for act in acts if first == "note" else acts[::-1]:
        act()
    lost, noted = Decimal(minor) / 100, Decimal("2.38")
    kept = max(noted - lost, Decimal(0))  # in the balance: what the bank did not give back
    assert (_kind(cast, account), _kind(cast, "prepaid")) == (lost - (noted - kept), -kept)
    assert _kind(cast, "disputed") == 0
    assert _kind(cast, "bank") == Decimal("6.70") - lost
    _books_agree(cast)
    assert reconcile_all(cast.organisation).differences == []


def test_of_a_balance_that_is_used_a_lost_dispute_takes_what_is_left_and_says_the_rest(
    cast: Cast, market: Market, as_user: Callable[[User], Client]
) -> None:
    invoice = _pay(cast, _invoice(cast, market), "5.63", "pi_1")
    credit_note_issue(invoice_id=invoice.id, reason="wrong", actor=None, now=LATER)
    balance_refund(
        organisation=cast.organisation,
        amount=Decimal("4.00"),
        currency="EUR",
        reference="back",
        idempotency_key="a",
        actor=None,
        now=LATER,
    )
    _disputed(invoice, "du_1", 300)
    assert (_kind(cast, "bad_debt"), _kind(cast, "prepaid")) == (Decimal("1.37"), 0)
    said = {"balance_taken": "1.63", "balance_gone": "1.37"}
    assert OutboxRow.objects.get(topic="dispute.closed").payload.items() >= said.items()
    assert AuditEntry.objects.get(action="invoice.dispute_lost").detail == said
    for page in (
        as_user(cast.owner).get(f"/invoices/{invoice.pk}"),
        as_user(cast.admin).get(f"/customers/invoices/{invoice.pk}"),
    ):
        text = " ".join(unescape(re.sub(r"<[^>]+>", "", page.content.decode())).split())
        assert "€ 1.63 is withdrawn from the balance" in text
        assert "€ 1.37 was no longer in the balance" in text
    payment_record(
        organisation=cast.organisation,
        amount=Decimal(9),
        currency="EUR",
        provider="bank-transfer",
        reference="other money",
        idempotency_key="b",
        actor=None,
        now=LATER,
    )
    _disputed(invoice, "du_2", 263)  # what was gone is not taken out of money that came since
    assert (_kind(cast, "bad_debt"), _kind(cast, "prepaid")) == (Decimal("1.37"), Decimal("-6.37"))
    _books_agree(cast)
    assert reconcile_all(cast.organisation).differences == []


def test_money_that_came_twice_and_is_disputed_is_no_balance_any_more(cast: Cast, market: Market) -> None:
    invoice = _pay(cast, _invoice(cast, market), "5.63", "by transfer")
    with transaction.atomic():
        fact_record(invoice, FactKind.PAID, "pi_1", Decimal("5.63"), LATER)
    payment_record(
        organisation=cast.organisation,
        amount=Decimal("5.63"),
        currency="EUR",
        provider="stripe",
        reference="pi_1",
        idempotency_key="stripe:pi_1",
        actor=None,
        now=LATER,
    )
    assert _kind(cast, "prepaid") == Decimal("-5.63")
    _disputed(invoice, "du_1", 563)
    assert (_kind(cast, "bad_debt"), _kind(cast, "prepaid"), _kind(cast, "bank")) == (0, 0, Decimal("5.63"))
    assert reconcile_all(cast.organisation).differences == []
