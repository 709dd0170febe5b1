"""What the portal says beside usage: budgets and caps with what is left, what was not billed and why, how credits and
commitments are used up."""

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
from apps.ledger.selectors import Scope, Spending, caps_of, month_of, spendings
from apps.notifications.budgets.services import used_and_forecasts
from apps.notifications.models import Budget, BudgetAlert
from apps.pricing.models import PriceBook
from apps.pricing.rating import exact_sum
from apps.pricing.rating.decimals import subtract
from apps.sales.commitments import Month, commitment_at, commitment_left, commitment_months, promised
from apps.sales.quota_caps import quotas_promised

FORECAST_METHOD = "linear projection of this month's usage"


class BudgetRow(NamedTuple):
    """A budget of this month."""

    budget: Budget
    used: Decimal
    forecast: Fraction

    @property
    def share(self) -> Fraction:
        """Used, of the budget; more than 1 when it is overrun."""
        return Fraction(self.used) / Fraction(self.budget.amount)

    @property
    def left(self) -> Decimal:
        """What may still be used within it; 0 when it is overrun."""
        return max(subtract(self.budget.amount, self.used), Decimal(0))


class CapRow(NamedTuple):
    """A cap, and what counts against it this month."""

    cap: Cap
    spent: Spending

    @property
    def name(self) -> str:
        """For what it is."""
        if self.cap.project is not None:
            return f"project {self.cap.project.name}"
        return "the whole organisation" if self.cap.token is None else f"API token {self.cap.token.name}"

    @property
    def left(self) -> Decimal:
        """What quotes may still set aside; 0 when a lowered cap is below what is committed."""
        return max(subtract(self.cap.amount, self.spent.committed), Decimal(0))

    @property
    def share(self) -> Fraction:
        """Used or set aside, of the cap."""
        return Fraction(self.spent.committed) / Fraction(self.cap.amount) if self.cap.amount else Fraction(1)


class Excluded(NamedTuple):
    """Work that was measured or planned and is not charged for."""

    reason: str
    leases: int
    executions: int


@dataclass(frozen=True)
class BurnStep:
    """A moment at which what is left of all credits changed."""

    at: datetime
    what: str
    change: Decimal
    left: Decimal


class Burn(NamedTuple):
    """How the credits of one currency are used up."""

    currency: str
    steps: list[BurnStep]

    @property
    def id(self) -> str:
        """Of its chart in a page."""
        return f"burn-{self.currency.lower()}"

    @property
    def data_id(self) -> str:
        """Of what the chart draws."""
        return f"{self.id}-data"


class Promise(NamedTuple):
    """A commitment in force: its month around now, and what may still be bought at its factor."""

    month: Month
    promised: Decimal
    left: Decimal
    currency: str

    @property
    def share(self) -> Fraction:
        """Bought, of all that is promised."""
        return 1 - Fraction(self.left) / Fraction(self.promised)


def promise_of(organisation: Organisation, *, now: datetime) -> Promise | None:
    """The commitment in the currency of the price book in force and how it is used up; None without one."""
    book = PriceBook.objects.filter(effective__contains=now).first()
    commitment = commitment_at(organisation, at=now, currency=book.currency) if book else None
    if commitment is None:
        return None
    month = commitment_months(commitment, until=now + timedelta(microseconds=1))[-1]
    return Promise(month, promised(commitment), commitment_left(commitment), commitment.currency)


def currencies_of(organisation: Organisation, *, first: str) -> list[str]:
    """`first`, then every other currency in which the organisation used, set aside or was credited something."""
    known = {
        code
        for model in (Spend, Hold, CreditGrant)
        for code in model.objects.filter(organisation=organisation)
        .order_by()
        .values_list("currency", flat=True)
        .distinct()
    }
    return [first, *sorted(known - {first})]


def budget_rows(organisation: Organisation, *, now: datetime) -> list[BudgetRow]:
    """Budgets that alert, the organisation's own first."""
    found = Budget.objects.filter(organisation=organisation, deleted_at=None).select_related("project", "token")
    budgets = list(found)
    spent = used_and_forecasts(budgets, now=now)
    rows = [BudgetRow(one, *told) for one, told in zip(budgets, spent, strict=True)]
    return sorted(
        rows, key=lambda row: (row.budget.project_id is not None, row.budget.token_id is not None, row.budget.scope)
    )


def alert_highest(organisation: Organisation, *, now: datetime) -> BudgetAlert | None:
    """The highest mark that was reached this month; of equal ones that of what is used, not only expected."""
    month = month_of(now)[0].date()
    alerts = BudgetAlert.objects.filter(budget__organisation=organisation, budget__deleted_at=None, month=month)
    return alerts.select_related("budget__project", "budget__token").order_by("-percent", "kind", "at").first()


def cap_rows(organisation: Organisation, *, now: datetime) -> list[CapRow]:
    """Every cap with what is used and held of it this month; of a project's also what its jobs were promised from quotas,
    whose holds belong to no project."""
    caps = caps_of(organisation.pk)
    scopes = [Scope(cap.currency, cap.project_id, cap.token_id) for cap in caps]
    spent = spendings(organisation_id=organisation.pk, scopes=scopes, now=now)
    promised = quotas_promised(organisation_id=organisation.pk)
    return [
        CapRow(cap, one if cap.project_id is None else _with(one, promised.get((cap.project_id, cap.currency))))
        for cap, one in zip(caps, spent, strict=True)
    ]


def _with(spent: Spending, promised: Decimal | None) -> Spending:
    held = spent.held if promised is None else exact_sum([spent.held, promised])
    return Spending(used=spent.used, held=held, currency=spent.currency)


def excluded(*, organisation: Organisation, start: datetime, end: datetime) -> list[Excluded]:
    """What ended in [start, end) and is not billed, with the reason; nothing is left out of a bill unsaid."""
    leases = Lease.objects.filter(NOT_BILLED, finished_at__gte=start, finished_at__lt=end)
    sums = leases.filter(stage__job__organisation=organisation).aggregate(
        **_ended("revoked", Q(state=LeaseState.REVOKED)),
        **_ended("failed", Q(state=LeaseState.FAILED)),
        **_ended("again", Q(state=LeaseState.DONE, epoch__gt=1), each=F("epoch") - 1),
    )
    reasons = {
        "revoked": "Taken back before they were done: the job was cancelled or had failed.",
        "failed": "Failed: they were not what was compiled, or no worker finished them.",
        "again": "Given to a worker again, since the one before was not heard of: only the run that finished is billed.",
    }
    found = [Excluded(reason, sums[f"{name}_leases"], sums[f"{name}_items"]) for name, reason in reasons.items()]
    return [one for one in found if one.leases]


def _ended(name: str, which: Q, *, each: Any = 1) -> dict[str, Sum]:
    """How many leases are such ones, and their executions; `each` counts that many times."""
    count = Sum(Value(1) * each, filter=which, default=0)
    return {f"{name}_leases": count, f"{name}_items": Sum(F("count") * each, filter=which, default=0)}


def burn_down(organisation: Organisation, *, currency: str) -> list[BurnStep]:
    """How all credits together grew and were used up, in order of time."""
    events: list[tuple[datetime, str, Decimal]] = [
        (one.granted_at, f"Granted: {one.reason}", one.amount)
        for one in CreditGrant.objects.filter(organisation=organisation, currency=currency)
    ]
    uses = CreditUse.objects.filter(grant__organisation=organisation, grant__currency=currency)
    events += [
        (use.at, _use_words(use), use.amount.copy_negate()) for use in uses.select_related("grant__end", "invoice")
    ]
    steps: list[BurnStep] = []
    left = Decimal(0)
    for at, what, change in sorted(events, key=lambda event: (event[0], event[1])):
        left = exact_sum([left, change])
        steps.append(BurnStep(at, what, change, left))
    return steps


def burns(organisation: Organisation) -> list[Burn]:
    """One for each currency in which there are credits."""
    rows = CreditGrant.objects.filter(organisation=organisation).order_by("currency")
    codes = rows.values_list("currency", flat=True).distinct()
    return [Burn(code, burn_down(organisation, currency=code)) for code in codes]


def _use_words(use: CreditUse) -> str:
    if use.invoice is None:
        end = use.grant.ended
        return f"Expired: {use.grant.reason}" if end is None or use.at < end.ended_at else f"Ended: {end.reason}"
    return f"{'Given back by a credit note of' if use.amount < 0 else 'Used by'} invoice {use.invoice.number}"
