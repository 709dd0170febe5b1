"""What reads usage and invoices: the portal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from django.db.models import Count, Max, QuerySet, Sum

from apps.accounts.models import Organisation
from apps.billing.models import WAITING, Invoice, InvoicedUsage, InvoiceLine, InvoiceState
from apps.ledger.models import Cap, UsageRow
from apps.ledger.selectors import Reconciliation, cap_of, month_of, reconcile, spending
from apps.pricing.rating import exact_sum
from apps.pricing.rating.decimals import subtract
from apps.sales.models import Contract
from apps.sales.selectors import ContractUsage, contract_usages


@dataclass(frozen=True)
class Month:
    """This month so far, beside the last one, the cap, and a straight-line forecast."""

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
    def committed(self) -> Decimal:
        """Used and set aside: what counts against the cap."""
        return exact_sum([self.used, self.held])

    @property
    def share_of_cap(self) -> Fraction | None:
        """0 to 1; None without a cap."""
        if self.cap is None or self.cap.amount == 0:
            return None
        return Fraction(self.committed) / Fraction(self.cap.amount)


def month_so_far(*, organisation: Organisation, currency: str, now: datetime) -> Month:
    """The headline of the portal."""
    start, end = month_of(now)
    spent = spending(organisation_id=organisation.id, currency=currency, now=now)
    rows = UsageRow.objects.filter(organisation=organisation, currency=currency)
    last_start, _ = month_of(start - timedelta(seconds=1))
    last = rows.filter(created_at__gte=last_start, created_at__lt=start).aggregate(sum=Sum("amount"))["sum"]
    uninvoiced = rows.filter(invoiced__isnull=True).aggregate(sum=Sum("amount"))["sum"]
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
        uninvoiced=uninvoiced or Decimal(0),
        updated_at=rows.aggregate(at=Max("created_at"))["at"],
    )


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def contracts_compared(*, organisation: Organisation, limit: int = 20) -> list[tuple[Contract, ContractUsage]]:
    """The newest contracts, quoted against actual."""
    rows = list(Contract.objects.filter(organisation=organisation).select_related("pool")[:limit])
    usages = contract_usages(rows)
    return [(contract, usages[contract.id]) for contract in rows]


def invoices_of(organisation: Organisation) -> QuerySet[Invoice]:
    """The organisation's invoices, newest first."""
    return Invoice.objects.filter(organisation=organisation)


def invoices_unpaid() -> QuerySet[Invoice]:
    """Every invoice that waits for money, the oldest first; for administrators."""
    return Invoice.objects.filter(state__in=WAITING).select_related("organisation").order_by("due_at")


@dataclass(frozen=True)
class FullReconciliation:
    """The ledger's reconciliation, and what invoices and contracts say."""

    ledger: Reconciliation
    invoiced: Decimal
    open: Decimal
    differences: list[str]


def reconcile_all(organisation: Organisation) -> FullReconciliation:
    """Metered, rated, posted, invoiced: counts and sums. Every difference in a sentence; none is the normal answer."""
    ledger = reconcile(organisation.id)
    differences = list(ledger.differences)
    rows = UsageRow.objects.filter(organisation=organisation)
    # Not by the claims that lines have: a claim that is lost must make a difference. A void invoice has none.
    lines = InvoiceLine.objects.filter(invoice__organisation=organisation).exclude(invoice__state=InvoiceState.VOID)
    invoiced = exact_sum(lines.values_list("amount", flat=True))
    waiting = rows.filter(invoiced__isnull=True).aggregate(sum=Sum("amount"))["sum"] or Decimal(0)
    if exact_sum([invoiced, waiting]) != ledger.metered:
        differences.append(
            f"metered minus invoiced and open is {subtract(ledger.metered, exact_sum([invoiced, waiting]))}"
        )
    claimed = InvoicedUsage.objects.filter(usage__organisation=organisation).aggregate(n=Count("pk"))["n"]
    if claimed + rows.filter(invoiced__isnull=True).count() != ledger.rows:
        differences.append("some usage is neither invoiced nor open")
    known = set(Contract.objects.filter(organisation=organisation).values_list("pk", flat=True))
    unknown = set(rows.values_list("contract_id", flat=True)) - known
    differences += [f"usage names contract {contract}, which does not exist" for contract in sorted(map(str, unknown))]
    return FullReconciliation(ledger, invoiced, waiting, differences)
