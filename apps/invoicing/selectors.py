"""Queries for the portal: the current month, contracts and invoices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Sum, Value, When

from apps.accounts.models import Organisation
from apps.invoicing.models import WAITING, Invoice, InvoiceState, Settlement, SettlementKind
from apps.ledger.models import AccountKind, Cap, UsageRow, UsageSum
from apps.ledger.selectors import balance_of, balances, cap_of, month_of, spending
from apps.pricing.rating import exact_sum
from apps.pricing.rating.decimals import subtract
from apps.sales.models import Contract
from apps.sales.selectors import ContractUsage, contract_usages


@dataclass(frozen=True)
class Month:
    """The figures of the current month so far, in one currency."""

    currency: str
    start: datetime
    end: datetime
    used: Decimal
    held: Decimal
    last_month: Decimal
    forecast: Fraction
    cap: Cap | None
    uninvoiced: Decimal
    updated_at: datetime | None

    @property
    def is_empty(self) -> bool:
        return not any((self.used, self.held, self.last_month, self.uninvoiced))

    @property
    def committed(self) -> Decimal:
        return exact_sum([self.used, self.held])

    @property
    def share_of_cap(self) -> Fraction | None:
        if self.cap is None or self.cap.amount == 0:
            return None
        return Fraction(self.committed) / Fraction(self.cap.amount)


def month_so_far(*, organisation: Organisation, currency: str, now: datetime) -> Month:
    """Return the figures of the current month so far, in one currency."""
    start, end = month_of(now)
    spent = spending(organisation_id=organisation.id, currency=currency, now=now)
    rows = UsageRow.objects.filter(organisation=organisation, currency=currency)
    last_start, _ = month_of(start - timedelta(seconds=1))
    sums = UsageSum.objects.filter(organisation=organisation, currency=currency, recorded_at__gte=last_start)
    last = sums.filter(recorded_at__lt=start).aggregate(sum=Sum("amount"))["sum"]
    elapsed = max(now - start, timedelta(seconds=1))
    return Month(
        currency=currency,
        start=start,
        end=end,
        used=spent.used,
        held=spent.held,
        last_month=last or Decimal(0),
        forecast=Fraction(spent.used) * _microseconds(end - start) / _microseconds(elapsed),
        cap=cap_of(organisation.id, currency=currency),
        uninvoiced=_uninvoiced(organisation, currency),
        updated_at=rows.order_by("-created_at", "-id").values_list("created_at", flat=True).first(),
    )


def _uninvoiced(organisation: Organisation, currency: str) -> Decimal:
    standing = Invoice.objects.filter(organisation=organisation, currency=currency).exclude(state=InvoiceState.VOID)
    carried = standing.aggregate(sum=Sum(F("carried_out") - F("carried_in")))["sum"]
    return subtract(balance_of(organisation.id, AccountKind.ACCRUED, currency), carried or Decimal(0))


def uninvoiced_of(organisation: Organisation) -> list[tuple[str, Decimal]]:
    """Return (currency, amount) for each currency in which an amount has not been invoiced."""
    codes = sorted(code for kind, code in balances(organisation.id) if kind == AccountKind.ACCRUED)
    found = [(code, _uninvoiced(organisation, code)) for code in codes]
    return [(code, amount) for code, amount in found if amount]


def months_so_far(*, organisation: Organisation, currencies: Sequence[str], now: datetime) -> list[Month]:
    """Return the current month's figures in the first currency and in every other currency with activity."""
    found = [month_so_far(organisation=organisation, currency=code, now=now) for code in currencies]
    return [*found[:1], *(month for month in found[1:] if not month.is_empty)]


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def contracts_compared(*, organisation: Organisation, limit: int = 20) -> list[tuple[Contract, ContractUsage]]:
    """Return the newest contracts, each with its quoted and actual amounts."""
    rows = list(Contract.objects.filter(organisation=organisation).select_related("pool")[:limit])
    usages = contract_usages(rows)
    return [(contract, usages[contract.id]) for contract in rows]


def invoices_of(organisation: Organisation) -> QuerySet[Invoice]:
    """Return the organisation's invoices, newest first, without their documents."""
    return invoices_with_state_name(Invoice.objects.filter(organisation=organisation)).defer("document")


def invoices_with_state_name(invoices: QuerySet[Invoice]) -> QuerySet[Invoice]:
    """Annotate invoices with `called`: the state or, if only credit notes settled the invoice, "credited"."""
    settled = Settlement.objects.filter(invoice=OuterRef("pk")).order_by()
    by_notes = Exists(settled) & ~Exists(settled.exclude(kind=SettlementKind.CREDIT_NOTE))
    called = Case(When(Q(state=InvoiceState.PAID) & by_notes, then=Value("credited")), default=F("state"))
    return invoices.annotate(called=called)


def invoices_unpaid() -> QuerySet[Invoice]:
    """Return every organisation's unpaid invoices, sorted by due date."""
    rows = Invoice.objects.filter(state__in=WAITING).select_related("organisation").defer("document")
    return rows.order_by("due_at")
