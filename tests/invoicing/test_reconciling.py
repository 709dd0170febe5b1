"""Every figure of money that somebody alters or deletes behind the guards is found, and its row is named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.apps import apps
from django.contrib.postgres.functions import RandomUUID
from django.db import connection, models, transaction
from django.db.models import F, Value
from django.test import override_settings

from apps.accounts.problems import Problem
from apps.collection.pull import fact_record
from apps.collection.refunds import _move
from apps.invoicing import services
from apps.invoicing.models import (
    BillingProfile,
    CreditGrant,
    CreditNote,
    CreditNoteLine,
    CreditUse,
    DisputeState,
    DunningStep,
    FactKind,
    Invoice,
    InvoicedUsage,
    InvoiceLine,
    Payment,
    Settlement,
    SettlementKind,
    StripeFact,
)
from apps.invoicing.reconciliation import reconcile_all
from apps.ledger.models import AccountKind, Entry, Hold, OutboxRow, Transaction, UsageRow
from apps.pricing.models import PriceBook
from apps.pricing.rating import digest_of
from apps.pricing.selectors import document_of
from apps.sales.models import Contract, Quote
from tests.cast import Cast
from tests.sales.market import NOW, Market, open_market
from tests.sales.test_contracts import run, sold
from tests.tiers import WHOLE, part

pytestmark = pytest.mark.django_db
MILLION = 10**6
# What is compared with postings; what only plans or tells (budgets, alerts, the tax of invoices to come) is not.
COMPARED = (
    Invoice,
    InvoiceLine,
    Payment,
    Settlement,
    CreditNote,
    CreditNoteLine,
    CreditGrant,
    CreditUse,
    StripeFact,
    DunningStep,
)
TELLING = {"budget", "budgetalert", "billingprofile"}


def _grant(cast: Cast, amount: str, days: int | None = None) -> CreditGrant:
    return services.grant_create(
        organisation=cast.organisation,
        amount=Decimal(amount),
        currency="EUR",
        reason="Welcome",
        actor=None,
        now=NOW,
        expires_at=NOW + timedelta(days=days) if days else None,
        idempotency_key=amount,
    )


def _invoice(cast: Cast, market: Market, minute: int, executions: int = MILLION) -> Invoice:
    at = NOW + timedelta(minutes=minute)
    run(sold(cast, market, executions=executions), executions, now=at)
    return services.invoice_issue(organisation=cast.organisation, actor=None, now=at + timedelta(seconds=5))


@pytest.fixture(scope="module")
def shared_books(shared_cast: Cast) -> Cast:
    """Everything that money does: credits used, returned, expired; payments; notes; a balance; void; bad debt; Stripe."""
    cast, market = shared_cast, open_market(devices=6, change=lambda book: book.update(free_tera_operations="50"))
    BillingProfile.objects.create(organisation=cast.organisation, tax_rate=Decimal("0.19"))
    _grant(cast, "1.5")
    first = _invoice(cast, market, 1)
    at: dict[str, Any] = {"actor": None, "now": NOW + timedelta(hours=1)}
    services.invoice_mark_paid(invoice_id=first.id, amount=Decimal(1), reference="part", **at)
    services.credit_note_issue(invoice_id=first.id, parts={1: Decimal("0.5")}, reason="wrong", **at)
    services.invoice_mark_paid(invoice_id=first.id, amount=Decimal(3), reference="more than is open", **at)
    second = _invoice(cast, market, 2)
    assert services.dunning_run(now=second.due_at + timedelta(days=4)) == 1
    services.invoice_write_off(invoice_id=second.id, reason="gone", **at)
    services.invoice_mark_paid(invoice_id=second.id, amount=Decimal("0.1"), reference="after all", **at)
    _grant(cast, "0.75")
    third = _invoice(cast, market, 3)
    services.invoice_void(invoice_id=third.id, reason="wrong", **at)
    with override_settings(STRIPE_API_KEY="sk_test_books"):
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


@pytest.fixture
def books(shared_books: Cast, db: None) -> Cast:
    return deepcopy(shared_books)


@contextmanager
def behind_their_back(*tables: str) -> Iterator[None]:
    """No trigger, key or check of the tables watches; what is done is undone afterwards."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        for table in tables:
            cursor.execute(
                "SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'c' ORDER BY 1", [table]
            )
            for (name,) in cursor.fetchall():
                cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
        cursor.execute("SET session_replication_role = replica")
        yield
        cursor.execute("SET session_replication_role = origin")
        transaction.set_rollback(True)


# What a sentence about a row says, whatever else it says.
NAMES: dict[type[models.Model], Callable[[Any], str]] = {
    Invoice: lambda row: f"invoice {row.number}",
    InvoiceLine: lambda row: f"invoice {row.invoice.number}, line {row.number}",
    Payment: lambda row: f"payment {row.reference}",
    CreditNote: lambda row: f"credit note {row.number}",
    CreditNoteLine: lambda row: f"credit note {row.credit_note.number}, line {row.number}",
    CreditGrant: lambda row: f"credit {row.id}",
    CreditUse: lambda row: f"credit {row.grant_id}",
    DunningStep: lambda row: f"invoice {row.invoice.number}, reminder {row.level}",
    StripeFact: lambda row: f"as {row.reference}: ",
    Settlement: lambda row: f"invoice {row.invoice.number}",
    UsageRow: lambda row: f"usage {row.idempotency_key}",
    PriceBook: lambda row: f"price book {row.version}",
    Quote: str,
    Contract: str,
}


def _named(row: models.Model) -> str:
    return NAMES[type(row)](row)


def _columns(model: type[models.Model]) -> list[str]:
    return [one.column for one in model._meta.concrete_fields if isinstance(one, models.DecimalField)]


def _kinds(model: type[models.Model]) -> list[models.Model]:
    """One row of each kind that the table has."""
    attribute = "state" if model is Invoice else "kind"
    return list({getattr(row, attribute, ""): row for row in model._default_manager.order_by("pk")}.values())


def test_no_table_of_money_is_left_out() -> None:
    rooms = [apps.get_app_config(label) for label in ("billing", "collection", "notifications", "portal")]
    with_amounts = {model for room in rooms for model in room.get_models() if _columns(model)}
    assert {model._meta.model_name for model in with_amounts - set(COMPARED)} == TELLING


def test_every_figure_that_is_altered_is_found_and_its_row_named(books: Cast) -> None:
    altered = 0
    for model in COMPARED:
        table = model._meta.db_table
        for row in part(_kinds(model)):
            for column in _columns(model):
                step = Decimal(1) if column == "quantity" else Decimal("0.01")
                with behind_their_back(table):
                    assert model._default_manager.filter(pk=row.pk).update(**{column: F(column) + step}) == 1
                    found = reconcile_all(books.organisation).differences
                assert any(_named(row) in sentence for sentence in found), (table, column, row, found)
                altered += 1
    assert altered > (40 if WHOLE else 20)
    assert reconcile_all(books.organisation).differences == []


def test_an_instant_at_which_something_is_due_is_compared_too(books: Cast) -> None:
    row = Invoice.objects.order_by("pk")[0]
    with behind_their_back(row._meta.db_table):
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
        with behind_their_back(book._meta.db_table):
            PriceBook.objects.update(**change)
            assert told in reconcile_all(books.organisation).differences
            with pytest.raises(Problem, match="Nothing will be priced with this price book") as refusal:
                document_of(PriceBook.objects.get())
            assert (refusal.value.status, refusal.value.kind) == (503, "price-book-altered")


def test_a_row_that_is_gone_is_missed(books: Cast) -> None:
    for model in COMPARED:
        for row in part(model._default_manager.order_by("pk")):  # in the whole every one: other rows name some of them
            with behind_their_back(model._meta.db_table):
                assert model._default_manager.filter(pk=row.pk)._raw_delete("default") == 1
                found = reconcile_all(books.organisation).differences
            assert found, row


def test_another_currency_and_a_rewritten_document_are_found_too(books: Cast) -> None:
    def found(row: models.Model, **change: Any) -> list[str]:
        with behind_their_back(row._meta.db_table):
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


# Papers, and what else is kept as JSON; a transaction and its usage stop the check of the chain, so they have turns of
# their own.
PAPERS: dict[type[models.Model], str] = {
    Invoice: "document",
    CreditNote: "document",
    Quote: "document",
    Contract: "terms",
    PriceBook: "document",
    CreditGrant: "basis",
    OutboxRow: "payload",
}
HISTORY: dict[type[models.Model], str] = {UsageRow: "rating", Transaction: "detail"}
TURNS = (PAPERS, {UsageRow: "rating"}, {Transaction: "detail"})
UNCOMPARED = {
    CreditGrant,
    OutboxRow,
}  # a basis is on the invoice; of messages only what they say of reminders is compared
STRANGE = ({}, [], "x", None, 7, [{}], {"lines": "x", "adjustments": [7], "currency": [], "rows": 1, "steps": [{}]})
NESTED = ("lines", "adjustments", "steps", "basis", "terms", "currency", "counts")


def _lacking(document: Any) -> list[Any]:
    """The document without each of its fields in turn, down to those of the first of a list."""
    if isinstance(document, list):
        return [[rest, *document[1:]] for rest in _lacking(document[0])] if document else []
    if not isinstance(document, dict):
        return []
    found: list[Any] = []
    for key, value in sorted(document.items()):
        found.append({name: one for name, one in document.items() if name != key})
        if key in NESTED:
            found += [{**document, key: rest} for rest in _lacking(value)]
    return found


def _found(books: Cast, changes: list[tuple[models.Model, str, Any]]) -> list[str]:
    """What is found when the documents of these rows are others."""
    with behind_their_back(*sorted({row._meta.db_table for row, _, _ in changes})):
        for row, column, document in changes:
            changed = Value(document, models.JSONField())
            type(row)._default_manager.filter(pk=row.pk).update(**{column: changed})
        found = reconcile_all(books.organisation).differences
    for row, _, _ in changes:
        if isinstance(row, Transaction):  # the chain's check ends at the first that does not fit
            assert any("transaction" in sentence or "does not commit" in sentence for sentence in found), found
        elif type(row) not in UNCOMPARED:
            assert any(_named(row) in sentence for sentence in found), (row, found)
    return found


@pytest.mark.parametrize("turn", TURNS)
def test_whatever_a_document_is_replaced_by_nothing_breaks_and_each_is_named(
    books: Cast, turn: dict[type[models.Model], str]
) -> None:
    rows = [(row, column) for model, column in turn.items() for row in model._default_manager.order_by("pk")]
    for value in STRANGE:
        _found(books, [(row, column, value) for row, column in rows])


@pytest.mark.parametrize("turn", TURNS)
def test_whatever_field_a_document_lacks_nothing_breaks_and_it_is_named(
    books: Cast, turn: dict[type[models.Model], str]
) -> None:
    """One field of every row at a time, another one of each row of a table."""
    queues = []
    for model, column in turn.items():
        rows = list(model._default_manager.order_by("pk"))
        for place, row in enumerate(rows):
            every = _lacking(getattr(row, column))
            shared = min(len(rows), 2) if model is Invoice else len(rows)
            queues.append((row, column, every[place % shared :: shared]))
    for turned in range(max(len(left) for _, _, left in queues)):
        _found(books, [(row, column, left[turned]) for row, column, left in queues if turned < len(left)])


def test_a_row_that_names_one_that_is_gone_is_no_error_of_ours(books: Cast) -> None:
    unseen = []
    for model in (*COMPARED, *PAPERS, *HISTORY, Entry, Hold, InvoicedUsage):
        for field in model._meta.concrete_fields:
            name = field.name
            if not isinstance(field, models.ForeignKey) or name == "organisation" or name.endswith("_by"):
                continue
            with behind_their_back(model._meta.db_table):
                changed = model._default_manager.exclude(**{name: None}).update(**{name: RandomUUID()})
                if changed and not reconcile_all(books.organisation).differences:
                    unseen.append((model, name))
    assert unseen == []
