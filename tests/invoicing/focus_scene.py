"""A customer of whom the cost export has a row of every kind."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps.compilation.models import Program
from apps.invoicing.focus import focus_rows
from apps.invoicing.focus_files import focus_csv
from apps.invoicing.models import BillingProfile, CreditNote, Invoice
from apps.invoicing.services import credit_note_issue, grant_create, invoice_issue, invoices_issue_month
from apps.sales.models import Contract, FormName
from apps.sales.services import QuoteLine, commitment_enter, contract_close, quote_accept, quote_create
from apps.sales.volumes import Form
from tests.cast import Cast
from tests.sales.market import NOW, open_market
from tests.sales.test_contracts import run

SOON = NOW + timedelta(hours=1)
CHEAPER = datetime(2026, 11, 24, 20, tzinfo=UTC)  # 21:00 in Berlin
INVOICED = NOW + timedelta(hours=12)
JANUARY = datetime(2027, 1, 1, 1, tzinfo=UTC)
END = JANUARY + timedelta(days=1)


def everything(cast: Cast) -> tuple[list[Invoice], CreditNote]:
    """Two invoices and a credit note: hours of two prices, a reservation in part unused, a credit, free operations, tax,
    a commitment used and what it lacks, corrections; and usage that is on no invoice."""

    def change(d: dict[str, Any]) -> None:
        d["classes"]["guaranteed"]["offered"] = True
        d["classes"]["hourly"] = {**d["classes"]["standard"], "title": "Hourly", "time_of_use": True}
        d["tariff"]["periods"][1]["factor"] = "0.6"
        d["free_tera_operations"] = "0.5"

    market = open_market(change=change)
    BillingProfile.objects.create(organisation=cast.organisation, tax_rate=Decimal("0.19"))
    grant_create(
        organisation=cast.organisation,
        amount=Decimal("0.75"),
        currency="EUR",
        reason="Welcome",
        expires_at=None,
        idempotency_key="welcome",
        actor=None,
        now=NOW,
    )
    reserved = market.program(cast.organisation, cast.engineer, operations=2_000_000_000, interval=1700, latency=2000)
    slow = market.program(cast.organisation, cast.engineer, interval=9 * 10**8)  # one a second
    plain = market.program(cast.organisation, cast.engineer)

    def sell(program: Program, executions: int, klass: str, **asked: Any) -> Contract:
        asked = {"window": (NOW, NOW + timedelta(days=7)), **asked}
        quote = quote_create(
            organisation=cast.organisation,
            lines=[QuoteLine(program, executions)],
            pool=market.lpu,
            klass=klass,
            actor=None,
            now=NOW,
            **asked,
        )
        return quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=cast.owner, now=NOW)

    interval = {"form": Form(FormName.INTERVAL, Fraction(1, 1000)), "window": (SOON, SOON + timedelta(seconds=10))}
    guaranteed = sell(reserved, 500, "guaranteed", **interval)
    run(guaranteed, 4_000_000, now=SOON)
    contract_close(contract_id=guaranteed.id, now=guaranteed.ends_at)
    run(sell(slow, 90, "hourly"), 90, now=CHEAPER - timedelta(seconds=30))
    commitment_enter(organisation=cast.organisation, kind="month", minimum=Decimal(50), actor=cast.owner, now=NOW)
    standing = sell(plain, 2_000_000, "standard")
    run(standing, 1_234_567, now=SOON)
    later = sell(plain, 1000, "standard", window=(NOW, JANUARY + timedelta(days=1)))
    first = invoice_issue(organisation=cast.organisation, actor=None, now=INVOICED)
    parts = {line.number: Decimal("0.10") for line in first.lines.all()}
    note = credit_note_issue(invoice_id=first.id, parts=parts, reason="too slow", actor=None, now=INVOICED)
    assert invoices_issue_month(now=JANUARY) == 1
    run(later, 1000, now=JANUARY)
    return list(Invoice.objects.order_by("sequence")), note


def exported(cast: Cast, *, start: datetime = NOW - timedelta(days=1), end: datetime = END) -> list[dict[str, str]]:
    """The rows as the CSV file has them."""
    rows = focus_rows(organisation=cast.organisation, start=start, end=end)
    return list(csv.DictReader("".join(focus_csv(rows)).splitlines()))
