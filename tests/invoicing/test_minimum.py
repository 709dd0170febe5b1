"""The minimum charge of a month: whatever was invoiced in it, and never where nothing was used."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.accounts.problems import Problem
from apps.cli.agreement import Difference
from apps.cli.verify import verify
from apps.invoicing.drafting import currencies_open, invoice_draft
from apps.invoicing.exports import invoice_csv, invoice_json, invoice_pdf
from apps.invoicing.focus import focus_rows
from apps.invoicing.models import Invoice
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import credit_note_issue, grant_create, invoice_issue, invoice_void, invoices_issue_month
from apps.ledger.models import UsageRow
from apps.ledger.selectors import month_of
from apps.pricing.rating import exact_sum
from apps.pricing.selectors import book_of_digest
from apps.pricing.services import pricebook_publish
from apps.sales.services import commitment_enter, quote_accept, quote_create
from tests.cast import Cast
from tests.pricing.rating.books import document
from tests.sales.market import NOW, Market, open_market
from tests.sales.test_contracts import run, sold
from tests.tiers import some

pytestmark = pytest.mark.django_db
MILLION = 10**6  # executions of the market's program cost 5.632 EUR
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
DECEMBER, JANUARY = datetime.fromisoformat("2026-12-01T00:00Z"), datetime.fromisoformat("2027-01-01T00:00Z")


def asking(minimum: str) -> Any:
    """A change of the book: so much at least in a month with usage."""
    return lambda book: book.update(minimum_charge=minimum)


def issue(cast: Cast, now: datetime) -> Invoice:
    return invoice_issue(organisation=cast.organisation, actor=None, now=now)


def named(invoice: Invoice) -> dict[str, Decimal]:
    """The named lines of an invoice by kind."""
    return {one["kind"]: Decimal(one["amount"]) for one in invoice.document.get("adjustments", [])}


def newest() -> Invoice:
    found = Invoice.objects.order_by("sequence").last()
    assert found is not None
    return found


def test_a_month_that_was_invoiced_on_demand_is_brought_up_to_the_minimum(cast: Cast) -> None:
    market = open_market(change=asking("20"))
    run(sold(cast, market, executions=MILLION), MILLION)
    assert issue(cast, NOW + HOUR).net == Decimal("5.632")
    assert currencies_open(cast.organisation, until=NOW + HOUR) == []
    assert [invoices_issue_month(now=DECEMBER + hour * HOUR) for hour in range(3)] == [1, 0, 0]
    closing = newest()
    assert (closing.document["lines"], named(closing)) == ([], {"minimum": Decimal("14.368")})
    assert closing.period_end == DECEMBER
    book = book_of_digest(closing.document["adjustments"][0]["basis"]["book_digest"])
    assert "minimum of 20" in "\n".join(verify(closing.document, models=[], books=[book]).checked)
    rows = focus_rows(organisation=cast.organisation, start=NOW - DAY, end=JANUARY)
    assert exact_sum(row["BilledCost"] for row in rows if row["InvoiceId"] == closing.number) == closing.due
    for write in (invoice_csv, invoice_json, invoice_pdf):
        assert write(closing)
    assert reconcile_all(cast.organisation).differences == []
    note = credit_note_issue(invoice_id=closing.id, reason="given away", actor=None, now=DECEMBER + DAY)
    assert (note.total, invoices_issue_month(now=DECEMBER + DAY)) == (closing.due, 0)


def test_a_month_without_usage_has_no_minimum_though_a_commitment_lacks(cast: Cast) -> None:
    market = open_market(change=asking("20"))
    commitment_enter(organisation=cast.organisation, kind="year", minimum=Decimal(12), actor=cast.owner, now=NOW)
    contract = sold(cast, market, executions=MILLION)
    run(contract, MILLION // 2)  # x 0.7: 1.9712
    assert invoices_issue_month(now=DECEMBER) == 1
    assert named(newest()) == {"minimum": Decimal("18.0288")}
    assert [invoices_issue_month(now=JANUARY) for _ in range(2)] == [1, 0]
    assert named(newest()) == {"shortfall": Decimal("10.0288")}


def test_what_a_commitment_lacks_counts_towards_the_minimum(cast: Cast) -> None:
    market = open_market(change=asking("20"))
    commitment_enter(
        organisation=cast.organisation, kind="year", minimum=Decimal(12), actor=cast.owner, now=NOW - 40 * DAY
    )
    run(sold(cast, market, executions=MILLION), MILLION // 2)  # x 0.7: 1.9712
    assert [invoices_issue_month(now=DECEMBER) for _ in range(2)] == [1, 0]
    closing = newest()
    assert named(closing) == {"shortfall": Decimal(12), "minimum": Decimal("6.0288")}
    assert closing.net == 20
    book = book_of_digest(market.book.digest)
    assert "and 12 of commitments" in "\n".join(verify(closing.document, models=[], books=[book]).checked)
    closing.document["adjustments"][1]["basis"]["shortfall"] = "10"
    with pytest.raises(Difference, match="shortfall of commitments"):
        verify(closing.document, models=[], books=[book])


def test_an_invoice_in_the_next_month_closes_the_one_before_first(cast: Cast) -> None:
    market = open_market(change=asking("20"))
    contract = sold(cast, market, executions=MILLION)
    run(contract, 500_000)
    run(contract, 100_000, now=DECEMBER + timedelta(minutes=10))
    asked = DECEMBER + timedelta(minutes=30)
    draft = invoice_draft(organisation=cast.organisation, until=asked)
    assert draft is not None
    assert draft.period_end == DECEMBER
    first, second = issue(cast, asked), issue(cast, asked)
    assert (first.period_end, first.net, named(first)["minimum"]) == (DECEMBER, 20, Decimal("17.184"))
    assert (second.period_start, second.period_end, second.net) == (DECEMBER, asked, Decimal("0.5632"))
    assert invoices_issue_month(now=asked) == 0


def test_the_minimum_is_of_the_last_book_in_its_currency_that_month(cast: Cast) -> None:
    """The yen book begins on the last day of November; in December nobody asks for a least amount in euros."""
    market = open_market(change=lambda book: book.update(minimum_charge="20", notice_days=0))

    def yen(book: dict[str, Any]) -> None:
        book |= {"version": 2, "currency": {"code": "JPY", "exponent": 0}, "minimum_charge": "500", "notice_days": 0}

    pricebook_publish(document=document(yen), effective_from=DECEMBER - HOUR, now=NOW)
    contract = sold(cast, market, executions=MILLION)
    run(contract, MILLION)
    issue(cast, NOW + HOUR)
    assert [invoices_issue_month(now=DECEMBER) for _ in range(2)] == [1, 0]
    assert (newest().currency, named(newest())) == ("EUR", {"minimum": Decimal("14.368")})


ACTS = st.sampled_from(["run", "run", "issue", "grant", "void", "month", "idle"])


class Year:
    """A customer whose book asks for a minimum; what is refused changes nothing."""

    def __init__(self, cast: Cast, market: Market) -> None:
        self.cast, self.market, self.now = cast, market, NOW
        self.program = market.program(cast.organisation, cast.engineer)

    def run(self) -> None:
        quote = quote_create(
            organisation=self.cast.organisation,
            lines=[(self.program, 700_000)],
            klass="standard",
            pool=self.market.lpu,
            actor=None,
            now=self.now,
        )
        contract = quote_accept(
            quote_id=quote.id, organisation=self.cast.organisation, actor=self.cast.owner, now=self.now
        )
        run(contract, 700_000, now=self.now)

    def issue(self) -> None:
        issue(self.cast, self.now)

    def grant(self) -> None:
        grant_create(
            organisation=self.cast.organisation,
            amount=Decimal("3.5"),
            currency="EUR",
            reason="so",
            actor=None,
            expires_at=None,
            idempotency_key=str(self.now),
            now=self.now,
        )

    def void(self) -> None:
        """The newest is undone in its month or the next; what it held is invoiced again within the hour."""
        last = Invoice.objects.order_by("sequence").last()
        month, _ = month_of(self.now)
        if last is None or last.period_end <= month_of(month - DAY)[0]:
            return
        invoice_void(invoice_id=last.id, reason="so", actor=None, now=self.now)
        invoices_issue_month(now=self.now)

    def month(self) -> None:
        self.now = month_of(self.now)[1]
        invoices_issue_month(now=self.now)

    def idle(self) -> None:
        """A whole month in which nothing is done."""
        self.month()
        self.month()


def _months_agree(year: Year, least: Decimal) -> None:
    """Every month that is over: at least the minimum before credits where something was used, and no minimum elsewhere."""
    start, _ = month_of(NOW)
    while (end := month_of(start)[1]) <= year.now:
        invoices = Invoice.objects.filter(period_end__gt=start, period_end__lte=end).exclude(state="void")
        beside = [line for one in invoices for line in one.document.get("adjustments", [])]
        given_away = [Decimal(line["amount"]) for line in beside if line["kind"] == "credit"]
        charged = exact_sum(one.net for one in invoices) - exact_sum(given_away)
        topped = exact_sum([Decimal(0), *(named(one).get("minimum", Decimal(0)) for one in invoices)])
        used = UsageRow.objects.filter(created_at__gte=start, created_at__lt=end)
        if used.exists():
            amount = exact_sum(used.values_list("amount", flat=True))
            assert charged == max(amount, least)
            assert topped == charged - amount
        else:
            assert (charged, topped) == (Decimal(0), Decimal(0))
        start = end


@settings(max_examples=some(3), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=st.lists(ACTS, min_size=4, max_size=7), least=st.sampled_from(["0", "3.90", "9", "20"]))
def test_every_month_with_usage_comes_to_the_minimum_and_no_other(cast: Cast, acts: list[str], least: str) -> None:
    with transaction.atomic():
        market = open_market(change=asking(least))
        year = Year(cast, market)
        for act in ["run", *acts, "month"]:
            year.now += timedelta(minutes=1)
            with suppress(Problem), transaction.atomic():
                getattr(year, act)()
        _months_agree(year, Decimal(least))
        assert invoices_issue_month(now=year.now) == 0
        assert reconcile_all(cast.organisation).differences == []
        transaction.set_rollback(True)
