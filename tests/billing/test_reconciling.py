"""Every figure of money that somebody alters or deletes behind the guards is found, and its row is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, models, transaction
from django.db.models import F
from pytest_django import Settings as SettingsWrapper

from apps.accounts.problems import Problem
from apps.billing import services
from apps.billing.models import (
    BillingProfile,
    CreditGrant,
    CreditNote,
    CreditNoteLine,
    CreditUse,
    DisputeState,
    FactKind,
    Invoice,
    InvoiceLine,
    Payment,
    Settlement,
    SettlementKind,
    StripeFact,
)
from apps.billing.reconciling import reconcile_all
from apps.billing.stripe.returning import _move
from apps.billing.stripe.syncing import fact_record
from apps.ledger.models import AccountKind
from apps.pricing.models import PriceBook
from apps.pricing.rating import digest_of
from apps.pricing.selectors import document_of
from tests.cast import Cast
from tests.sales.market import NOW, Market, open_market
from tests.sales.test_contracts import run, sold

pytestmark = pytest.mark.django_db
MILLION = 10**6
# What is compared with postings; what only plans or tells (budgets, alerts, reminders, the tax of invoices to come) is not.
COMPARED = (
    Invoice, InvoiceLine, Payment, Settlement, CreditNote, CreditNoteLine, CreditGrant, CreditUse, StripeFact,
)  # fmt: skip
TELLING = {"budget", "budgetalert", "billingprofile", "dunningstep"}


def _grant(cast: Cast, amount: str, days: int | None = None) -> CreditGrant:
    return services.grant_create(
        organisation=cast.organisation, amount=Decimal(amount), currency="EUR", reason="Welcome", actor=None, now=NOW,
        expires_at=NOW + timedelta(days=days) if days else None, idempotency_key=amount,
    )  # fmt: skip


def _invoice(cast: Cast, market: Market, minute: int, executions: int = MILLION) -> Invoice:
    at = NOW + timedelta(minutes=minute)
    run(sold(cast, market, executions=executions), executions, now=at)
    return services.invoice_issue(organisation=cast.organisation, actor=None, now=at + timedelta(seconds=5))


@pytest.fixture
def books(cast: Cast, settings: SettingsWrapper) -> Cast:
    """Everything that money does: credits used, returned, expired; payments; notes; a balance; void; bad debt; Stripe."""
    market = open_market(devices=6, change=lambda book: book.update(free_tera_operations="50"))
    BillingProfile.objects.create(organisation=cast.organisation, tax_rate=Decimal("0.19"))
    _grant(cast, "1.5")
    first = _invoice(cast, market, 1)
    at: dict[str, Any] = {"actor": None, "now": NOW + timedelta(hours=1)}
    services.invoice_mark_paid(invoice_id=first.id, amount=Decimal(1), reference="part", **at)
    services.credit_note_issue(invoice_id=first.id, parts={1: Decimal("0.5")}, reason="wrong", **at)
    services.invoice_mark_paid(invoice_id=first.id, amount=Decimal(3), reference="more than is open", **at)
    second = _invoice(cast, market, 2)
    services.invoice_write_off(invoice_id=second.id, reason="gone", **at)
    services.invoice_mark_paid(invoice_id=second.id, amount=Decimal("0.1"), reference="after all", **at)
    _grant(cast, "0.75")
    third = _invoice(cast, market, 3)
    services.invoice_void(invoice_id=third.id, reason="wrong", **at)
    settings.STRIPE_API_KEY = "sk_test_books"
    fourth = services.invoice_issue(organisation=cast.organisation, actor=None, now=NOW + timedelta(minutes=4))
    amount = fourth.open
    with transaction.atomic():
        fact_record(fourth, FactKind.PAID, "pi_1", amount, at["now"])
    services.invoice_mark_paid(invoice_id=fourth.id, amount=amount, reference="pi_1", **at)
    bank, disputed = AccountKind.BANK, AccountKind.DISPUTED
    for kind, reference, to, source in (
        (FactKind.REFUNDED, "re_1", AccountKind.REFUND, bank),
        (FactKind.REFUND_FAILED, "re_1", bank, AccountKind.PREPAID),
        (FactKind.DISPUTED, "du_1", disputed, bank),
        (FactKind.DISPUTE_LOST, "du_1", AccountKind.BAD_DEBT, disputed),
        (FactKind.DISPUTED, "du_2", disputed, bank),
        (FactKind.DISPUTE_WON, "du_2", bank, disputed),
    ):
        with transaction.atomic():
            _move(fourth, kind, reference, 100, to, source, at["now"])
    services.invoice_dispute(invoice_id=fourth.id, outcome=DisputeState.LOST, now=at["now"])
    _grant(cast, "3", days=1)
    services.grants_expire(now=NOW + timedelta(days=2))
    assert set(Settlement.objects.values_list("kind", flat=True)) == set(SettlementKind.values)
    assert reconcile_all(cast.organisation).differences == []
    return cast


@contextmanager
def _behind_their_back(table: str) -> Iterator[None]:
    """No trigger, key or check of the table watches; what is done is undone afterwards."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute(
            "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'c' ORDER BY 1", [table]
        )
        for (name,) in cursor.fetchall():
            cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
        cursor.execute("SET session_replication_role = replica")
        yield
        cursor.execute("SET session_replication_role = origin")
        transaction.set_rollback(True)


def _named(row: models.Model) -> str:
    """What a sentence about the row says, whatever else it says."""
    match row:
        case Invoice():
            return f"invoice {row.number}"
        case InvoiceLine():
            return f"invoice {row.invoice.number}, line {row.number}"
        case Payment():
            return f"payment {row.reference}"
        case CreditNote():
            return f"credit note {row.number}"
        case CreditNoteLine():
            return f"credit note {row.credit_note.number}, line {row.number}"
        case CreditGrant():
            return f"credit {row.id}"
        case CreditUse():
            return f"credit {row.grant_id}"
        case StripeFact():
            return f"as {row.reference}: "
        case Settlement():
            return f"invoice {row.invoice.number}"
    raise AssertionError(row)


def _columns(model: type[models.Model]) -> list[str]:
    return [one.column for one in model._meta.concrete_fields if isinstance(one, models.DecimalField)]


def _kinds(model: type[models.Model]) -> list[models.Model]:
    """One row of each kind that the table has."""
    attribute = "state" if model is Invoice else "kind"
    return list({getattr(row, attribute, ""): row for row in model._default_manager.order_by("pk")}.values())


def test_no_table_of_money_is_left_out() -> None:
    with_amounts = {model for model in apps.get_app_config("billing").get_models() if _columns(model)}
    assert {model._meta.model_name for model in with_amounts - set(COMPARED)} == TELLING


def test_every_figure_that_is_altered_is_found_and_its_row_named(books: Cast) -> None:
    altered = 0
    for model in COMPARED:
        table = model._meta.db_table
        for row in _kinds(model):
            for column in _columns(model):
                step = Decimal(1) if column == "quantity" else Decimal("0.01")
                with _behind_their_back(table):
                    assert model._default_manager.filter(pk=row.pk).update(**{column: F(column) + step}) == 1
                    found = reconcile_all(books.organisation).differences
                assert any(_named(row) in sentence for sentence in found), (table, column, row, found)
                altered += 1
    assert altered > 40
    assert reconcile_all(books.organisation).differences == []


def test_an_instant_at_which_something_is_due_is_compared_too(books: Cast) -> None:
    row = Invoice.objects.order_by("pk")[0]
    with _behind_their_back(row._meta.db_table):
        Invoice.objects.filter(pk=row.pk).update(due_at=row.due_at + timedelta(days=365))
        (told,) = reconcile_all(books.organisation).differences
    assert told.startswith(f"invoice {row.number}: it is due at {row.due_at.year + 1}-")


def test_a_price_book_that_is_altered_is_named_and_sells_nothing(books: Cast) -> None:
    book = PriceBook.objects.get()
    cheaper = {**book.document, "floor": "0.01"}
    for change, told in (
        ({"document": cheaper}, "price book 1: its document is not the one that was published"),
        ({"document": {}}, "price book 1: its document is not a price book any more, nor the one that was published"),
        ({"digest": "0" * 64}, "price book 1: its document is not the one that was published"),
        ({"currency": "USD"}, "price book 1 in USD: its document is version 1 in EUR"),
    ):
        with _behind_their_back(book._meta.db_table):
            PriceBook.objects.update(**change)
            assert told in reconcile_all(books.organisation).differences
            with pytest.raises(Problem, match="Nothing is priced by it") as refusal:
                document_of(PriceBook.objects.get())
            assert (refusal.value.status, refusal.value.kind) == (503, "price-book-altered")


def test_a_row_that_is_gone_is_missed(books: Cast) -> None:
    for model in COMPARED:
        for row in model._default_manager.all():  # every one: other rows name some of them
            with _behind_their_back(model._meta.db_table):
                assert model._default_manager.filter(pk=row.pk)._raw_delete("default") == 1
                found = reconcile_all(books.organisation).differences
            assert found, row


def test_another_currency_and_a_rewritten_document_are_found_too(books: Cast) -> None:
    def found(row: models.Model, **change: Any) -> list[str]:
        with _behind_their_back(row._meta.db_table):
            type(row)._default_manager.filter(pk=row.pk).update(**change)
            return reconcile_all(books.organisation).differences

    for model in (Invoice, Payment, CreditNote, CreditGrant):
        row = _kinds(model)[0]
        assert any(_named(row) in sentence for sentence in found(row, currency="USD")), row
    for row in (*Invoice.objects.all(), *CreditNote.objects.all()):
        assert any(_named(row) in sentence for sentence in found(row, document={})), row
        document = {**row.document, "addressee": "somebody else"}
        assert f"{_named(row)}: its document is not the one that was issued" in found(row, document=document)
        rewritten = found(row, document=document, digest=digest_of(document))
        assert f"{_named(row)}: its digest is not the one that was posted" in rewritten
