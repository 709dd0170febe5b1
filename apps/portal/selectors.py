"""Read caps with their remaining amounts, unbilled work, credit histories, and the commitment in force."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from django.db.models import F, Q, Sum, Value

from apps.accounts.models import Organisation
from apps.dispatch.models import NOT_BILLED, Lease, LeaseState
from apps.invoicing.models import CreditGrant, CreditUse
from apps.ledger.models import Cap, Hold, Spend
from apps.ledger.selectors import Scope, Spending, caps_of, spendings
from apps.pricing.models import PriceBook
from apps.pricing.rating import exact_sum
from apps.pricing.rating.decimals import subtract
from apps.sales.commitments import Month, commitment_at, commitment_left, commitment_months, promised
from apps.sales.quota_caps import quotas_promised

FORECAST_METHOD = "Linear projection"


class CapRow(NamedTuple):
    """A cap, and the amounts that count against the cap this month."""

    cap: Cap
    spent: Spending

    @property
    def name(self) -> str:
        if self.cap.project is not None:
            return f"project {self.cap.project.name}"
        return "the whole organisation" if self.cap.token is None else f"API token {self.cap.token.name}"

    @property
    def left(self) -> Decimal:
        """The remaining amount; 0 if the committed amount exceeds the cap."""
        return max(subtract(self.cap.amount, self.spent.committed), Decimal(0))

    @property
    def share(self) -> Fraction:
        return Fraction(self.spent.committed) / Fraction(self.cap.amount) if self.cap.amount else Fraction(1)


class Excluded(NamedTuple):
    """Work that was measured or planned but is not billed, and the reason."""

    reason: str
    leases: int
    executions: int


@dataclass(frozen=True)
class CreditChange:
    """A change of the remaining credits, and the amount that remained."""

    at: datetime
    what: str
    change: Decimal
    left: Decimal


class CreditHistory(NamedTuple):
    """Every change of the remaining credits in one currency, oldest first."""

    currency: str
    changes: list[CreditChange]

    @property
    def id(self) -> str:
        return f"credits-{self.currency.lower()}"

    @property
    def data_id(self) -> str:
        return f"{self.id}-data"


class CommitmentStatus(NamedTuple):
    """The commitment in force, with its current month.

    `promised` is the total committed amount, and `left` is the part that has not been bought yet.
    """

    month: Month
    promised: Decimal
    left: Decimal
    currency: str

    @property
    def share(self) -> Fraction:
        return 1 - Fraction(self.left) / Fraction(self.promised)


def commitment_status(organisation: Organisation, *, now: datetime) -> CommitmentStatus | None:
    """Return the commitment in the currency of the price book in force; None if there is no such commitment."""
    book = PriceBook.objects.filter(effective__contains=now).first()
    commitment = commitment_at(organisation, at=now, currency=book.currency) if book else None
    if commitment is None:
        return None
    month = commitment_months(commitment, until=now + timedelta(microseconds=1))[-1]
    return CommitmentStatus(month, promised(commitment), commitment_left(commitment), commitment.currency)


def currencies_of(organisation: Organisation, *, first: str) -> list[str]:
    """Return `first`, then every other currency in which the organisation has usage, holds or credits."""
    known = {
        code
        for model in (Spend, Hold, CreditGrant)
        for code in model.objects.filter(organisation=organisation)
        .order_by()
        .values_list("currency", flat=True)
        .distinct()
    }
    return [first, *sorted(known - {first})]


def cap_rows(organisation: Organisation, *, now: datetime) -> list[CapRow]:
    """Return every cap, with the amounts used and held this month.

    A project's cap also counts the amounts that its jobs reserved from quotas.
    """
    caps = caps_of(organisation.pk)
    scopes = [Scope(cap.currency, cap.project_id, cap.token_id) for cap in caps]
    spent = spendings(organisation_id=organisation.pk, scopes=scopes, now=now)
    promised = quotas_promised(organisation_id=organisation.pk)
    return [
        CapRow(cap, one if cap.project_id is None else _held_more(one, promised.get((cap.project_id, cap.currency))))
        for cap, one in zip(caps, spent, strict=True)
    ]


def _held_more(spent: Spending, promised: Decimal | None) -> Spending:
    held = spent.held if promised is None else exact_sum([spent.held, promised])
    return Spending(used=spent.used, held=held, currency=spent.currency)


def excluded(*, organisation: Organisation, start: datetime, end: datetime) -> list[Excluded]:
    """Return the unbilled work that ended in [start, end): one row for each reason."""
    leases = Lease.objects.filter(NOT_BILLED, finished_at__gte=start, finished_at__lt=end)
    sums = leases.filter(stage__job__organisation=organisation).aggregate(
        **_ended("revoked", Q(state=LeaseState.REVOKED)),
        **_ended("failed", Q(state=LeaseState.FAILED)),
        **_ended("again", Q(state=LeaseState.DONE, epoch__gt=1), each=F("epoch") - 1),
    )
    reasons = {
        "revoked": "Cancelled before completion: the job was cancelled or failed.",
        "failed": "Failed: the counts differed from those of the compiled program, or no worker finished the run.",
        "again": "Run again because the first worker stopped responding; only the run that finished is billed.",
    }
    found = [Excluded(reason, sums[f"{name}_leases"], sums[f"{name}_items"]) for name, reason in reasons.items()]
    return [one for one in found if one.leases]


def _ended(name: str, which: Q, *, each: Any = 1) -> dict[str, Sum]:
    count = Sum(Value(1) * each, filter=which, default=0)
    return {f"{name}_leases": count, f"{name}_items": Sum(F("count") * each, filter=which, default=0)}


def credit_changes(organisation: Organisation, *, currency: str) -> list[CreditChange]:
    """Return every grant and use of credits in a currency, oldest first."""
    events: list[tuple[datetime, str, Decimal]] = [
        (one.granted_at, f"Granted: {one.reason}", one.amount)
        for one in CreditGrant.objects.filter(organisation=organisation, currency=currency)
    ]
    uses = CreditUse.objects.filter(grant__organisation=organisation, grant__currency=currency)
    events += [
        (use.at, _use_sentence(use), use.amount.copy_negate()) for use in uses.select_related("grant__end", "invoice")
    ]
    changes: list[CreditChange] = []
    left = Decimal(0)
    for at, what, change in sorted(events, key=lambda event: (event[0], event[1])):
        left = exact_sum([left, change])
        changes.append(CreditChange(at, what, change, left))
    return changes


def credit_histories(organisation: Organisation) -> list[CreditHistory]:
    """Return the credit history of each currency."""
    rows = CreditGrant.objects.filter(organisation=organisation).order_by("currency")
    codes = rows.values_list("currency", flat=True).distinct()
    return [CreditHistory(code, credit_changes(organisation, currency=code)) for code in codes]


def _use_sentence(use: CreditUse) -> str:
    if use.invoice is None:
        end = use.grant.ended
        return f"Expired: {use.grant.reason}" if end is None or use.at < end.ended_at else f"Ended: {end.reason}"
    return f"{'Restored by a credit note for' if use.amount < 0 else 'Used by'} invoice {use.invoice.number}"
