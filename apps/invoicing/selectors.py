"""What reads usage and invoices: the portal."""

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
    def is_empty(self) -> bool:
        """Nothing was used lately, nothing is set aside, nothing waits for an invoice."""
        return not any((self.used, self.held, self.last_month, self.uninvoiced))

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
    """The headline of the portal in one currency."""
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
    """Used and on no invoice: what is accrued, less what invoices carry; reconciliation sums the rows and compares."""
    standing = Invoice.objects.filter(organisation=organisation, currency=currency).exclude(state=InvoiceState.VOID)
    carried = standing.aggregate(sum=Sum(F("carried_out") - F("carried_in")))["sum"]
    return subtract(balance_of(organisation.id, AccountKind.ACCRUED, currency), carried or Decimal(0))


def uninvoiced_of(organisation: Organisation) -> list[tuple[str, Decimal]]:
    """What was used and is on no invoice, in each currency in which there is something."""
    codes = sorted(code for kind, code in balances(organisation.id) if kind == AccountKind.ACCRUED)
    found = [(code, _uninvoiced(organisation, code)) for code in codes]
    return [(code, amount) for code, amount in found if amount]


def months_so_far(*, organisation: Organisation, currencies: Sequence[str], now: datetime) -> list[Month]:
    """The first currency's, then those of the others in which there is something: never a sum across currencies."""
    found = [month_so_far(organisation=organisation, currency=code, now=now) for code in currencies]
    return [*found[:1], *(month for month in found[1:] if not month.is_empty)]


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def contracts_compared(*, organisation: Organisation, limit: int = 20) -> list[tuple[Contract, ContractUsage]]:
    """The newest contracts, quoted against actual."""
    rows = list(Contract.objects.filter(organisation=organisation).select_related("pool")[:limit])
    usages = contract_usages(rows)
    return [(contract, usages[contract.id]) for contract in rows]


def invoices_of(organisation: Organisation) -> QuerySet[Invoice]:
    """The organisation's invoices, newest first, each with what it is called; without their documents, which hold every
    usage row."""
    return invoices_called(Invoice.objects.filter(organisation=organisation)).defer("document")


def invoices_called(invoices: QuerySet[Invoice]) -> QuerySet[Invoice]:
    """With `called`: the state, but "credited" instead of paid where credit notes alone settled it and nobody paid."""
    settled = Settlement.objects.filter(invoice=OuterRef("pk")).order_by()
    by_notes = Exists(settled) & ~Exists(settled.exclude(kind=SettlementKind.CREDIT_NOTE))
    called = Case(When(Q(state=InvoiceState.PAID) & by_notes, then=Value("credited")), default=F("state"))
    return invoices.annotate(called=called)


def invoices_unpaid() -> QuerySet[Invoice]:
    """Every invoice that waits for money, the oldest first; for administrators."""
    rows = Invoice.objects.filter(state__in=WAITING).select_related("organisation").defer("document")
    return rows.order_by("due_at")
