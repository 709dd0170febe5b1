"""Named lines beside usage: credits, missed guarantees, the minimum charge, downgrades; sum of lines = total."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.accounts.models import AuditEntry
from apps.accounts.problems import Problem
from apps.cli.agreement import Difference
from apps.cli.verify import verify
from apps.dispatch import services as dispatch
from apps.dispatch.models import Lease
from apps.invoicing.adjustments import credits_of
from apps.invoicing.exports import invoice_csv, invoice_json, invoice_pdf
from apps.invoicing.focus import focus_rows
from apps.invoicing.models import BillingProfile, CreditEnd, CreditGrant, CreditUse, GrantKind, Invoice
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import (
    credit_note_issue,
    grant_create,
    grant_end,
    grants_expire,
    guarantees_credit_due,
    invoice_issue,
    invoices_issue_month,
)
from apps.ledger.models import OutboxRow
from apps.ledger.selectors import balances
from apps.portal.selectors import credit_changes
from apps.pricing.rating import PriceBookDocument, decimal_text, exact_sum, rate
from apps.pricing.selectors import book_of_digest
from apps.sales.models import Contract
from apps.sales.services import commitment_enter, contract_lease_rate
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.ledger.money import balance
from tests.sales.market import NOW, Market, open_market
from tests.sales.test_contracts import run, sold

pytestmark = pytest.mark.django_db
MILLION = 10**6  # executions of the market's program cost 5.632 EUR
LATER = NOW + timedelta(minutes=5)


def _grant(cast: Cast, amount: str, key: str, *, days: int | None = None) -> CreditGrant:
    return grant_create(
        organisation=cast.organisation,
        amount=Decimal(amount),
        currency="EUR",
        reason=f"Welcome {key}",
        expires_at=None if days is None else NOW + timedelta(days=days),
        idempotency_key=key,
        actor=cast.admin,
        now=NOW,
    )


def _left(cast: Cast) -> dict[str, Decimal]:
    return {one.grant.idempotency_key: one.left for one in credits_of(cast.organisation, currency="EUR")}


def _lines_sum_up(invoice: Invoice) -> None:
    document = invoice.document
    rows = [*document["lines"], *document.get("adjustments", [])]
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    assert exact_sum(Decimal(row["amount"]) for row in rows) == invoice.net
    shares = exact_sum(Decimal(row["share"]) for row in rows)
    assert exact_sum([shares, Decimal(document["carried_in_share"])]) == invoice.payable
    assert exact_sum([invoice.payable, invoice.tax]) == invoice.due
    invoice.refresh_from_db()
    book = book_of_digest(rows[0]["rating"]["book_digest"])
    assert f"adjustment {rows[-1]['number']}" in _verified(invoice, book) or "adjustments" not in document
    for one in document.get("adjustments", []):
        _finds_a_changed(invoice, one["number"], book)


def _verified(invoice: Invoice, book: PriceBookDocument) -> str:
    return "\n".join(verify(invoice.document, models=[], books=[book]).checked)


def _finds_a_changed(invoice: Invoice, number: int, book: PriceBookDocument) -> None:
    """An amount changed together with every sum that it is part of is found all the same, by what it follows from."""
    changed = json.loads(json.dumps(invoice.document))
    (one,) = [row for row in changed["adjustments"] if row["number"] == number]
    one["amount"] = decimal_text(exact_sum([Decimal(one["amount"]), Decimal("0.000001")]))
    with pytest.raises(Difference, match=f"adjustment {number}, amount"):
        verify(changed, models=[], books=[book])


def _books_agree(cast: Cast) -> None:
    now = balances(cast.organisation.id)
    assert exact_sum(now.values()) == 0
    assert balance(now, "credit") == exact_sum(_left(cast).values()).copy_negate()
    assert balance(now, "receivable") == exact_sum(Invoice.objects.values_list("open", flat=True))
    assert reconcile_all(cast.organisation).differences == []


def test_credits_are_used_the_next_to_expire_first(cast: Cast, market: Market) -> None:
    for amount, key, days in (("3", "for ever", None), ("2", "soon", 20), ("4", "later", 40), ("9", "gone", 1)):
        _grant(cast, amount, key, days=days)
    run(sold(cast, market, executions=MILLION), MILLION, now=NOW + timedelta(days=1))
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=NOW + timedelta(days=2))
    assert _left(cast) == {"gone": 9, "soon": 0, "later": Decimal("0.368"), "for ever": 3}
    assert [row["amount"] for row in invoice.document["adjustments"]] == ["-2", "-3.632"]
    assert (invoice.net, invoice.due, invoice.state) == (0, 0, "paid")
    _lines_sum_up(invoice)
    _books_agree(cast)
    assert [grants_expire(now=NOW + timedelta(days=day)) for day in (2, 3, 41)] == [1, 0, 1]
    assert _left(cast) == {"gone": 0, "soon": 0, "later": 0, "for ever": 3}
    _books_agree(cast)


def test_the_rest_after_credits_is_what_is_due_and_taxed(cast: Cast, market: Market) -> None:
    BillingProfile.objects.create(organisation=cast.organisation, tax_rate=Decimal("0.19"))
    _grant(cast, "1.5", "a")
    run(sold(cast, market, executions=MILLION), MILLION)
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=LATER)
    assert (invoice.net, invoice.payable, invoice.due) == (Decimal("4.132"), Decimal("4.13"), Decimal("4.91"))
    _lines_sum_up(invoice)
    with pytest.raises(Problem, match="Credit notes cannot exceed this amount"):
        credit_note_issue(invoice_id=invoice.id, parts={1: Decimal("5.00")}, reason="x", actor=None, now=LATER)
    note = credit_note_issue(invoice_id=invoice.id, reason="all of it", actor=None, now=LATER)
    assert (note.total, _left(cast)) == (invoice.due, {"a": Decimal("1.5")})
    now = balances(cast.organisation.id)
    assert [balance(now, kind) for kind in ("revenue", "tax", "receivable")] == [0, 0, 0]
    assert (balance(now, "accrued"), balance(now, "rounding")) == (Decimal("0.002"), Decimal("-0.002")), "still carried"
    _books_agree(cast)


def test_one_key_is_one_credit(cast: Cast, market: Market) -> None:
    assert _grant(cast, "5", "a") == _grant(cast, "5", "a")
    with pytest.raises(Problem, match="belongs to another"):
        _grant(cast, "6", "a")
    for wrong in ({"amount": "0"}, {"amount": "1", "days": -1}):
        with pytest.raises(Problem, match="needs an amount"):
            _grant(cast, key="b", **wrong)
    with pytest.raises(IntegrityError, match="only ever added"), transaction.atomic():
        CreditGrant.objects.update(amount=7)


def test_a_block_that_failed_on_our_side_is_credited_by_itself(cast: Cast) -> None:
    scene = Scene(open_market(), cast)
    program = scene.program(operations=40_000_000)
    job = scene.job(scene.contract((program, 100)), 10)
    lease = scene.take(Lease.objects.get(stage__job=job))
    dispatch.lease_fail(lease_id=lease.pk, epoch=lease.epoch, reason="no worker answered", now=scene.now)
    assert [guarantees_credit_due(now=scene.now) for _ in range(2)] == [1, 0]
    grant = CreditGrant.objects.get()
    line = job.contract.terms["lines"][0]
    assert grant.amount == Decimal(line["amount"]) / 100 * 10
    assert grant.basis["lease"] == str(lease.pk)
    assert "10 executions" in grant.reason
    scene.run(scene.job(job.contract, 100))
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=scene.now + timedelta(minutes=1))
    assert invoice.document["adjustments"][0]["kind"] == "guarantee"
    assert invoice.net == Decimal(line["amount"]) / 100 * 90
    _lines_sum_up(invoice)
    _books_agree(cast)


def test_a_month_is_brought_up_to_the_minimum_once(cast: Cast) -> None:
    market = open_market(change=lambda d: d.update(minimum_charge="20"))
    contract = sold(cast, market, executions=2 * MILLION)
    run(contract, MILLION)
    first = invoice_issue(organisation=cast.organisation, actor=None, now=LATER)
    assert "adjustments" not in first.document
    run(contract, MILLION // 2, now=NOW + timedelta(minutes=10))
    assert invoices_issue_month(now=datetime(2026, 12, 1, 1, tzinfo=UTC)) == 1
    second = Invoice.objects.get(sequence=2)
    (row,) = second.document["adjustments"]
    assert (row["kind"], row["amount"]) == ("minimum", "11.552")
    assert exact_sum([first.net, second.net]) == 20
    _lines_sum_up(second)
    _books_agree(cast)


def test_free_operations_of_a_month_are_given_once(cast: Cast) -> None:
    market = open_market(change=lambda d: d.update(free_tera_operations="1000"))
    contract = sold(cast, market, executions=3 * MILLION)  # 704 tera-operations a million
    invoices = []
    for minute in (1, 2, 3):
        run(contract, MILLION, now=NOW + timedelta(minutes=minute))
        invoices.append(
            invoice_issue(organisation=cast.organisation, actor=None, now=NOW + timedelta(minutes=minute, seconds=5))
        )
    free = [one.document.get("adjustments", [{"amount": "0"}])[0]["amount"] for one in invoices]
    assert free == ["-5.632", "-2.368", "0"]  # 704 and then 296 at 0.008
    assert [invoice.net for invoice in invoices] == [0, Decimal("3.264"), Decimal("5.632")]
    assert invoices[1].document["adjustments"][0]["basis"]["taken"] == 704 * 10**12
    for invoice in invoices:
        _lines_sum_up(invoice)
    _books_agree(cast)
    assert balance(balances(cast.organisation.id), "promotion") == 8


def test_what_a_commitment_lacks_is_charged_once_even_without_usage(cast: Cast, market: Market) -> None:
    commitment = commitment_enter(
        organisation=cast.organisation, kind="year", minimum=Decimal(100), actor=cast.owner, now=NOW
    )
    contract = sold(cast, market, executions=MILLION)
    run(contract, MILLION)
    first = invoice_issue(organisation=cast.organisation, actor=None, now=LATER)
    assert (first.net, "adjustments" in first.document) == (Decimal("3.9424"), False)  # 5.632 x 0.7
    assert invoices_issue_month(now=datetime(2026, 12, 1, 1, tzinfo=UTC)) == 0, "its month has not ended"
    for month, missing in (
        (datetime(2027, 1, 1, 1, tzinfo=UTC), "96.0576"),
        (datetime(2027, 2, 1, 1, tzinfo=UTC), "100"),
    ):
        assert [invoices_issue_month(now=month) for _ in range(2)] == [1, 0]
        invoice = Invoice.objects.order_by("sequence").last()
        assert invoice is not None
        assert invoice.document["lines"] == []
        (row,) = invoice.document["adjustments"]
        assert (row["kind"], row["amount"], row["basis"]["commitment"]) == ("shortfall", missing, str(commitment.id))
        rows = [
            row
            for row in focus_rows(organisation=cast.organisation, start=NOW, end=month + timedelta(hours=1))
            if row["InvoiceId"] == invoice.number
        ]
        assert exact_sum(row["BilledCost"] for row in rows) == invoice.payable
        assert rows[0]["CommitmentDiscountId"] == str(commitment.id)
        for write in (invoice_csv, invoice_json, invoice_pdf):
            assert write(invoice)
        verify(invoice.document, models=[], books=[book_of_digest(commitment.book_digest)])
        _finds_a_changed(invoice, 1, book_of_digest(commitment.book_digest))
    _books_agree(cast)


def test_the_run_of_a_month_leaves_less_than_a_cent_open(cast: Cast, market: Market) -> None:
    contract = sold(cast, market, executions=MILLION)
    run(contract, 1000)
    first = datetime(2026, 12, 1, 1, tzinfo=UTC)
    assert invoices_issue_month(now=first) == 0
    assert not Invoice.objects.exists()
    run(contract, 1000, now=NOW + timedelta(days=1))
    assert invoices_issue_month(now=first) == 1
    assert Invoice.objects.get().payable == Decimal("0.01")


def test_work_served_below_its_class_is_billed_at_the_class_it_got(
    cast: Cast, market: Market, monkeypatch: Any
) -> None:
    contract = sold(cast, market, executions=MILLION, klass="priority")

    def late(**given: Any) -> Any:
        rating = contract_lease_rate(**given)
        terms = replace(rating.terms, served="standard")
        book = book_of_digest(rating.book_digest)
        return rate(book=book, counts=rating.counts, executions=rating.executions, terms=terms)

    run(contract, 400_000)
    monkeypatch.setattr("tests.sales.test_contracts.contract_lease_rate", late)
    run(contract, 600_000)
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=LATER)
    kept, served = sorted(invoice.document["lines"], key=lambda line: "downgrade" in line)
    assert "downgrade" not in kept
    assert (served["amount"], served["downgrade"]["bought"]) == ("3.3792", "5.9136")
    assert served["downgrade"]["saved"] == "2.5344"
    assert exact_sum([invoice.net, Decimal("2.5344")]) == contract.net
    _lines_sum_up(invoice)


def test_reverse_charge_is_said_in_words(cast: Cast, market: Market) -> None:
    BillingProfile.objects.create(organisation=cast.organisation, tax_scheme="reverse_charge", tax_id="NL1")
    run(sold(cast, market, executions=MILLION), MILLION)
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=LATER)
    assert invoice.document["tax_note"].startswith("Reverse charge")
    assert (invoice.tax, CreditUse.objects.count()) == (0, 0)


def test_what_is_left_of_a_credit_ends_and_what_was_spent_stays(cast: Cast, market: Market) -> None:
    grant = _grant(cast, "8", "by mistake", days=10)
    _grant(cast, "1", "meant")
    run(sold(cast, market, executions=2 * MILLION), MILLION)
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=LATER)
    assert _left(cast) == {"by mistake": Decimal("2.368"), "meant": 1}
    for reason, said in ((" ", "Enter a reason"), ("Granted to the wrong customer", "")):
        given: dict[str, Any] = {
            "grant_id": grant.id,
            "reason": reason,
            "actor": cast.admin,
            "now": LATER + timedelta(seconds=1),
        }
        if said:
            with pytest.raises(Problem, match=said):
                grant_end(**given)
        else:
            assert grant_end(**given) == grant
    assert _left(cast) == {"by mistake": 0, "meant": 1}
    assert exact_sum(grant.uses.filter(invoice=invoice).values_list("amount", flat=True)) == Decimal("5.632")
    assert [entry.detail["amount"] for entry in AuditEntry.objects.filter(action="credit.end")] == ["2.368"]
    assert OutboxRow.objects.get(topic="credit.ended").payload["reason"] == "Granted to the wrong customer"
    with pytest.raises(Problem, match="already ended: Granted to the wrong customer"):
        grant_end(**given)
    _books_agree(cast)
    run(Contract.objects.get(), MILLION // 2, now=LATER)
    following = invoice_issue(organisation=cast.organisation, actor=None, now=LATER + timedelta(minutes=1))
    assert [one["basis"]["granted"] for one in following.document["adjustments"]] == ["1"], "an ended one is not used"
    assert grants_expire(now=LATER + timedelta(days=20)) == 0
    assert [step.what for step in credit_changes(cast.organisation, currency="EUR")] == [
        "Granted: Welcome by mistake",
        "Granted: Welcome meant",
        f"Used by invoice {invoice.number}",
        "Ended: Granted to the wrong customer",
        f"Used by invoice {following.number}",
    ]
    _books_agree(cast)
    with pytest.raises(IntegrityError, match="only ever added"), transaction.atomic():
        CreditEnd.objects.update(reason="another")


@pytest.mark.parametrize(
    ("currency", "most", "said"),
    [
        ("EUR", "10000", "€\u202f10,000.00"),
        ("JPY", "1000000", "JPY\u202f1,000,000"),
        ("KWD", "1000", "KWD\u202f1,000.000"),
    ],
)
def test_one_credit_has_an_upper_limit(cast: Cast, currency: str, most: str, said: str) -> None:
    given: dict[str, Any] = {
        "organisation": cast.organisation,
        "currency": currency,
        "reason": "x",
        "expires_at": None,
        "actor": cast.admin,
        "now": NOW,
    }
    grant_create(amount=Decimal(most), idempotency_key="a", **given)
    with pytest.raises(Problem, match="CREDIT_LIMIT") as refusal:
        grant_create(amount=Decimal(most) + Decimal(1), idempotency_key="b", **given)
    assert said in refusal.value.detail
    guarantee = grant_create(amount=Decimal(most) + Decimal(1), idempotency_key="c", kind=GrantKind.GUARANTEE, **given)
    assert guarantee.amount > Decimal(most)
    assert reconcile_all(cast.organisation).differences == []
