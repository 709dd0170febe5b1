"""Amounts that once depended on chance or on the order of clicks; each is a case of docs/reference/invoice-amounts.md."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from apps.accounts.problems import Problem
from apps.cli.agreement import Unreadable
from apps.cli.verify import verify
from apps.invoicing.credit_funds import credit_funds_of
from apps.invoicing.drafting import invoice_draft
from apps.invoicing.models import BillingProfile, CreditGrant, Invoice
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import (
    credit_note_issue,
    grant_create,
    grant_end,
    grants_expire,
    invoice_issue,
    invoice_void,
    invoices_issue_month,
)
from apps.pricing.models import PriceBook
from apps.pricing.rating import digest_of, exact_sum
from apps.pricing.selectors import document_of
from apps.pricing.services import pricebook_publish
from apps.sales.models import Contract
from apps.sales.services import quote_accept, quote_create
from tests.cast import Cast
from tests.pricing.rating.books import document
from tests.sales.market import NOW, Market, open_market
from tests.sales.test_contracts import run, sold

pytestmark = pytest.mark.django_db
MILLION = 10**6  # executions of the market's program are 704 tera-operations and cost 5.632 EUR
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SECOND = timedelta(seconds=1)
DECEMBER, JANUARY = datetime.fromisoformat("2026-12-01T00:00Z"), datetime.fromisoformat("2027-01-01T00:00Z")


def issue(cast: Cast, now: datetime) -> Invoice:
    return invoice_issue(organisation=cast.organisation, actor=None, now=now)


def void(invoice: Invoice, now: datetime) -> None:
    invoice_void(invoice_id=invoice.id, reason="wrong", actor=None, now=now)


def of_kind(kind: str) -> Decimal:
    """What standing invoices hold of a kind of named line."""
    standing = Invoice.objects.exclude(state="void")
    lines = [one for invoice in standing for one in invoice.document.get("adjustments", []) if one["kind"] == kind]
    return exact_sum(Decimal(one["amount"]) for one in lines)


def asked() -> Decimal:
    return exact_sum(Invoice.objects.exclude(state="void").values_list("due", flat=True))


def agreed(cast: Cast) -> None:
    """Every invoice is recomputed offline, and the books are reconciled."""
    books = [document_of(book) for book in PriceBook.objects.all()]
    for invoice in Invoice.objects.all():
        assert verify(invoice.document, models=[], books=books).checked
    assert reconcile_all(cast.organisation).differences == []


def dearer(book: dict[str, Any]) -> None:
    """The second book: another price, and nothing free."""
    book |= {"version": 2, "notice_days": 0}
    book["prices"]["lpu"]["float32"] = "0.05"


@pytest.mark.parametrize("ids", [(1, 2), (2, 1)])
def test_free_operations_follow_books_and_prices_and_no_ids(
    cast: Cast, monkeypatch: pytest.MonkeyPatch, ids: tuple[int, int]
) -> None:
    """One contract under a book with free operations, one under a dearer book without: whichever id is first."""
    market = open_market(change=lambda book: book.update(free_tera_operations="100", notice_days=0))
    pricebook_publish(document=document(dearer), effective_from=NOW + HOUR, now=NOW)
    for number, at in zip(ids, (NOW, NOW + 2 * HOUR), strict=True):
        monkeypatch.setattr("apps.sales.services.accepting.uuid4", lambda number=number: UUID(int=number))
        run(_bought(cast, market, at), 100_000, now=at)
    invoice = issue(cast, NOW + DAY)
    assert of_kind("free-tier") == Decimal("-0.5632"), (
        "all of the first contract's 70.4 tera-operations, by its own book"
    )
    assert invoice.net == Decimal("3.52")
    agreed(cast)


def _bought(cast: Cast, market: Market, at: datetime) -> Contract:
    program = market.program(cast.organisation, cast.engineer)
    quote = quote_create(
        organisation=cast.organisation,
        lines=[(program, MILLION)],
        klass="standard",
        pool=market.lpu,
        actor=None,
        now=at,
    )
    return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=None, now=at)


def test_the_dearest_operations_are_free_first(cast: Cast) -> None:
    market = open_market(change=lambda book: book.update(free_tera_operations="100"))
    run(sold(cast, market, executions=MILLION), 200_000)
    run(sold(cast, market, executions=MILLION, klass="priority"), 100_000, now=NOW + SECOND)
    issue(cast, NOW + HOUR)
    priority, standard = Decimal("70.4") * Decimal("0.014"), Decimal("29.6") * Decimal("0.008")
    assert of_kind("free-tier") == -(priority + standard)
    agreed(cast)


def test_each_month_has_its_free_operations_whenever_it_is_invoiced(cast: Cast) -> None:
    market = open_market(change=lambda book: book.update(free_tera_operations="100"))
    contract = sold(cast, market, executions=MILLION)
    run(contract, 200_000, now=DECEMBER - SECOND)
    run(contract, 300_000, now=DECEMBER)
    over_both = issue(cast, DECEMBER + HOUR)
    assert of_kind("free-tier") == Decimal("-1.6"), "100 tera-operations in each of two months"
    agreed(cast)
    void(over_both, DECEMBER + 2 * HOUR)
    assert invoices_issue_month(now=DECEMBER + 3 * HOUR) == 1
    assert of_kind("free-tier") == Decimal("-0.8")
    run(contract, 100_000, now=DECEMBER + 4 * HOUR)
    issue(cast, DECEMBER + 5 * HOUR)
    assert (of_kind("free-tier"), asked()) == (Decimal("-1.6"), Decimal("1.78"))
    agreed(cast)


def test_a_void_invoice_loses_no_free_operations_and_gives_none_twice(cast: Cast) -> None:
    market = open_market(change=lambda book: book.update(free_tera_operations="100"))
    contract = sold(cast, market, executions=MILLION)
    run(contract, 200_000)
    first = issue(cast, NOW + HOUR)
    run(contract, 200_000, now=NOW + 2 * HOUR)
    issue(cast, NOW + 3 * HOUR)
    void(first, NOW + DAY)
    assert of_kind("free-tier") == 0
    again = issue(cast, JANUARY + 20 * DAY)
    assert (of_kind("free-tier"), again.net) == (Decimal("-0.8"), first.net)
    agreed(cast)


def test_the_minimum_of_a_month_that_was_voided_much_later_is_asked_again(cast: Cast) -> None:
    market = open_market(change=lambda book: book.update(minimum_charge="20"))
    run(sold(cast, market, executions=MILLION), MILLION)
    assert invoices_issue_month(now=DECEMBER + HOUR) == 1
    assert of_kind("minimum") == Decimal("14.368")
    void(Invoice.objects.get(), JANUARY + 20 * DAY)
    assert invoices_issue_month(now=JANUARY + 32 * DAY) == 1
    assert (of_kind("minimum"), asked()) == (Decimal("14.368"), 20)
    assert invoices_issue_month(now=JANUARY + 33 * DAY) == 0
    agreed(cast)


def test_a_minimum_alone_that_was_voided_is_asked_again(cast: Cast) -> None:
    market = open_market(change=lambda book: book.update(minimum_charge="20"))
    run(sold(cast, market, executions=MILLION), MILLION)
    issue(cast, NOW + HOUR)
    assert invoices_issue_month(now=DECEMBER + HOUR) == 1
    void(Invoice.objects.latest("sequence"), JANUARY + 20 * DAY)
    assert [invoices_issue_month(now=JANUARY + 32 * DAY) for _ in range(2)] == [1, 0]
    assert (of_kind("minimum"), asked()) == (Decimal("14.368"), 20)
    agreed(cast)


@pytest.mark.parametrize("ends", [DECEMBER, DECEMBER - SECOND])
@pytest.mark.parametrize("swept_first", [True, False])
def test_a_credit_to_the_end_of_a_month_pays_whether_or_not_it_is_swept_first(
    cast: Cast, market: Market, ends: datetime, swept_first: bool
) -> None:
    grant_create(
        organisation=cast.organisation,
        amount=Decimal(2),
        currency="EUR",
        reason="Welcome",
        expires_at=ends,
        idempotency_key="a",
        actor=None,
        now=NOW,
    )
    contract = sold(cast, market, executions=MILLION)
    run(contract, 200_000, now=ends - SECOND)  # 1.1264
    run(contract, 200_000, now=ends)
    sweep: Callable[[], object] = lambda: grants_expire(now=DECEMBER + HOUR)  # noqa: E731 - one of two acts in either order
    invoice: Callable[[], object] = lambda: issue(cast, DECEMBER + HOUR)  # noqa: E731
    for act in (sweep, invoice, sweep) if swept_first else (invoice, sweep):
        act()
    assert of_kind("credit") == Decimal("-1.1264"), "what was used while it was valid, and no more"
    assert Invoice.objects.get().net == Decimal("1.1264")
    agreed(cast)


def _granted(cast: Cast, amount: str, now: datetime, *, expires_at: datetime | None = None) -> CreditGrant:
    return grant_create(
        organisation=cast.organisation,
        amount=Decimal(amount),
        currency="EUR",
        reason="Welcome",
        expires_at=expires_at,
        idempotency_key=f"{amount} {now}",
        actor=None,
        now=now,
    )


@pytest.mark.parametrize(
    ("granted", "order"),
    [
        ("2", "end invoice"),
        ("2", "invoice end"),
        ("1", "end invoice"),
        ("1", "invoice end"),
        ("1", "invoice end void invoice"),
        ("1", "end invoice void invoice"),  # an invoice about nothing is not voided
    ],
)
def test_a_credit_that_is_ended_pays_for_what_was_before_in_every_order(
    cast: Cast, market: Market, granted: str, order: str
) -> None:
    """Once an end took back all that no invoice had used: whoever was invoiced a minute later paid more."""
    grant = _granted(cast, granted, NOW)
    contract = sold(cast, market, executions=MILLION)
    run(contract, 200_000, now=NOW + HOUR)  # 1.1264
    acts: dict[str, Callable[[datetime], object]] = {
        "end": lambda now: grant_end(grant_id=grant.id, reason="A mistake", actor=None, now=now),
        "invoice": lambda now: issue(cast, now),
        "void": lambda now: void(Invoice.objects.latest("sequence"), now),
    }
    for number, name in enumerate(order.split()):
        acts[name](NOW + 2 * HOUR + number * SECOND)
    run(contract, 200_000, now=NOW + 3 * HOUR)
    last = issue(cast, NOW + 4 * HOUR)
    assert of_kind("credit") == max(Decimal("-1.1264"), -grant.amount), "what was used before its end, and no more"
    assert last.net == Decimal("1.1264")
    grants_expire(now=NOW + 5 * HOUR)
    assert credit_funds_of(cast.organisation, currency="EUR").purse.left == {str(grant.id): 0}
    agreed(cast)


def test_a_credit_that_is_used_up_can_be_ended(cast: Cast, market: Market) -> None:
    """What a void invoice gives back of it pays for nothing later, as if it had been ended before that invoice."""
    grant = _granted(cast, "1", NOW)
    contract = sold(cast, market, executions=MILLION)
    run(contract, 200_000, now=NOW + HOUR)
    invoice = issue(cast, NOW + 2 * HOUR)
    grant_end(grant_id=grant.id, reason="A mistake", actor=None, now=NOW + 3 * HOUR)
    credit_note_issue(invoice_id=invoice.id, reason="Not theirs", actor=None, now=NOW + 4 * HOUR)
    run(contract, 200_000, now=NOW + 5 * HOUR)
    assert issue(cast, NOW + 6 * HOUR).net == Decimal("1.1264")
    assert grants_expire(now=NOW + 7 * HOUR) == 1
    assert credit_funds_of(cast.organisation, currency="EUR").purse.left == {str(grant.id): 0}
    agreed(cast)


@pytest.mark.parametrize("invoiced_first", [True, False])
def test_the_end_of_a_credit_changes_nothing_in_which_paid_before(
    cast: Cast, market: Market, invoiced_first: bool
) -> None:
    """The one that expires in December pays first, also when the other one is ended in between."""
    other, soon = _granted(cast, "2", NOW), _granted(cast, "1", NOW, expires_at=DECEMBER)
    contract = sold(cast, market, executions=MILLION)
    run(contract, 200_000, now=NOW + HOUR)
    if invoiced_first:
        issue(cast, NOW + 2 * HOUR)
    grant_end(grant_id=other.id, reason="A mistake", actor=None, now=NOW + 3 * HOUR)
    run(contract, 200_000, now=NOW + 4 * HOUR)
    issue(cast, NOW + 5 * HOUR)
    assert (of_kind("credit"), asked()) == (Decimal("-1.1264"), Decimal("1.13"))
    assert credit_funds_of(cast.organisation, currency="EUR").purse.left == {str(other.id): 0, str(soon.id): 0}
    agreed(cast)


def test_an_expired_credit_is_not_ended(cast: Cast) -> None:
    grant = _granted(cast, "1", NOW, expires_at=NOW + HOUR)
    with pytest.raises(Problem, match="has already expired"):
        grant_end(grant_id=grant.id, reason="A mistake", actor=None, now=NOW + HOUR)


def test_tax_of_less_than_a_cent_is_rounded(cast: Cast, market: Market) -> None:
    BillingProfile.objects.create(organisation=cast.organisation, tax_rate=Decimal("0.19"))
    run(sold(cast, market, executions=MILLION), 7000)  # 0.039424
    invoice = issue(cast, NOW + HOUR)
    assert (invoice.payable, invoice.tax) == (Decimal("0.04"), Decimal("0.01"))
    assert invoice.document["tax_carried_out"] == "-0.0024"
    agreed(cast)


def test_fifty_invoices_on_demand_ask_for_what_one_would(cast: Cast, market: Market) -> None:
    BillingProfile.objects.create(organisation=cast.organisation, tax_rate=Decimal("0.19"))
    contract = sold(cast, market, executions=MILLION)
    for number in range(50):
        run(contract, 2650, now=NOW + number * SECOND)  # 0.0149248
        issue(cast, NOW + (number + 1) * SECOND)
    assert (Invoice.objects.count(), asked()) == (50, Decimal("0.89")), "0.75 and 0.14 of tax, as one invoice asks for"
    agreed(cast)


def test_a_credit_takes_no_invoice_below_nought(cast: Cast, market: Market) -> None:
    """What the invoice before carried on is not paid by a credit that came after it."""
    contract = sold(cast, market, executions=MILLION)
    run(contract, 1000)
    assert issue(cast, NOW + HOUR).carried_out == Decimal("0.005632")
    grant_create(
        organisation=cast.organisation,
        amount=Decimal(100),
        currency="EUR",
        reason="Welcome",
        expires_at=None,
        idempotency_key="a",
        actor=None,
        now=NOW + HOUR,
    )
    run(contract, 200_000, now=NOW + 2 * HOUR)
    invoice = issue(cast, NOW + 3 * HOUR)
    assert (invoice.net, invoice.payable, invoice.carried_out) == (0, 0, Decimal("0.005632"))
    agreed(cast)


def test_what_version_1_of_the_rules_issued_stays_and_counts(cast: Cast) -> None:
    """Its free operations are taken, its charges count towards the minimum, and it is verified by its own rules."""
    market = open_market(change=lambda book: book.update(free_tera_operations="100", minimum_charge="20"))
    contract = sold(cast, market, executions=MILLION)
    run(contract, 100_000)  # 70.4 of 100 tera-operations
    _issued_by_version_1(issue(cast, NOW + HOUR))
    run(contract, 900_000, now=NOW + 2 * HOUR)
    assert invoices_issue_month(now=DECEMBER + HOUR) == 1
    newest = Invoice.objects.latest("sequence")
    kinds = {one["kind"]: one for one in newest.document["adjustments"]}
    assert (kinds["free-tier"]["basis"]["older"], kinds["free-tier"]["amount"]) == (704 * 10**11, "-0.2368")
    assert kinds["minimum"]["amount"] == "15.168"  # 20 less 5.632 and 0.8 of it free
    books = [document_of(book) for book in PriceBook.objects.all()]
    for invoice in Invoice.objects.all():
        assert verify(invoice.document, models=[], books=books).checked
    with pytest.raises(Unreadable, match="issued under version 3 of the rules; this command supports versions 1 and 2"):
        verify({**newest.document, "rules": 3}, models=[], books=books)
    assert invoice_draft(organisation=cast.organisation, until=JANUARY) is None


def _issued_by_version_1(invoice: Invoice) -> None:
    """The invoice as that version wrote it: by what the database cannot see, since an invoice never changes."""
    later = {"rules", "sections", "asked_before", "tax_asked_before", "tax_carried_in", "tax_carried_out"}
    paper = {key: value for key, value in invoice.document.items() if key not in later}
    for line in paper["lines"]:
        del line["section"]
    for one in paper["adjustments"]:
        digest = paper["lines"][0]["rating"]["book_digest"]
        one["basis"] = {"book_digest": digest, "taken": 0, "operations": one["basis"]["operations"]}
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET session_replication_role = replica")
        Invoice.objects.filter(pk=invoice.pk).update(rules=1, document=paper, digest=digest_of(paper))
        cursor.execute("SET session_replication_role = origin")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")
