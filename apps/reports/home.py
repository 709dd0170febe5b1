"""Read the data of the administrators' dashboard."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, Max, Sum
from django.urls import reverse

from apps.accounts.problems import Problem
from apps.compilation.models import CompileJob
from apps.dispatch.models import Job, JobState
from apps.fleet.models import Device, DeviceState
from apps.invoicing.models import Invoice, InvoiceState
from apps.pricing.selectors import book_in_force
from apps.reports.models import ControllerProposal, ProposalState, ReconciliationRun
from apps.reports.revenue import Revenue, revenues
from apps.reports.selectors import Capacity, PoolLoad, capacity
from apps.timetable.models import Refusal

DAY = timedelta(days=1)
FAILURES_SHOWN = 10
PROPOSALS_SHOWN = 5
RECONCILIATION_LATE = timedelta(hours=26)  # it runs daily; two hours of grace
REASON_CHARACTERS = 200


class Overdue(NamedTuple):
    """The overdue invoices in one currency: their number and their total open amount."""

    currency: str
    invoices: int
    amount: Decimal


class Failure(NamedTuple):
    """A failed job or compilation."""

    kind: str
    at: datetime
    organisation_id: UUID
    organisation: str
    subject: str
    reason: str


@dataclass(frozen=True)
class Failures:
    """The numbers of jobs and compilations that failed in the last 24 hours, and the newest failures."""

    jobs: int
    compiles: int
    newest: list[Failure]

    @property
    def count(self) -> int:
        return self.jobs + self.compiles


class Notice(NamedTuple):
    """A notice that something needs attention, with a link to the relevant page."""

    text: str
    url: str
    label: str


@dataclass(frozen=True)
class Home:
    """All data of the dashboard, read at `now`."""

    now: datetime
    capacity: Capacity
    refusals: int
    refused_at: datetime | None
    revenues: list[Revenue]
    overdue: list[Overdue]
    failures: Failures
    devices: Counter[str]
    proposals: list[ControllerProposal]
    proposals_count: int
    reconciliation: ReconciliationRun | None

    @property
    def waiting(self) -> int:
        return sum(load.waiting for load in self.capacity.pools)

    @property
    def running(self) -> int:
        return sum(load.queue.get("running", 0) for load in self.capacity.pools)

    @property
    def slowest(self) -> PoolLoad | None:
        """The pool with the longest 95th-percentile waiting time in the last 24 hours; None if no worker took a lease."""
        known = [load for load in self.capacity.pools if load.waits.p95 is not None]
        return max(known, key=lambda load: load.waits.p95 or timedelta(0), default=None)

    @property
    def out_of_service(self) -> int:
        return self.devices[DeviceState.FAILED] + self.devices[DeviceState.DRAINING]

    @property
    def overdue_count(self) -> int:
        return sum(one.invoices for one in self.overdue)

    @property
    def notices(self) -> list[Notice]:
        return [notice for find in (_reconciliation_notices, _fleet_notices, _work_notices) for notice in find(self)]


def home(*, now: datetime) -> Home:
    """Read all data of the dashboard with a fixed number of queries."""
    refusals = Refusal.objects.filter(at__gt=now - DAY).aggregate(count=Count("pk"), last=Max("at"))
    opened = ControllerProposal.objects.filter(state=ProposalState.OPEN)
    return Home(
        now=now,
        capacity=capacity(day=now, now=now),
        refusals=refusals["count"],
        refused_at=refusals["last"],
        revenues=_revenues(now),
        overdue=_overdue(),
        failures=_failures(now),
        devices=_devices(),
        proposals=list(opened.select_related("pool").order_by("pool__slug", "kind")[:PROPOSALS_SHOWN]),
        proposals_count=opened.count(),
        reconciliation=ReconciliationRun.objects.exclude(finished_at=None).order_by("-finished_at").first(),
    )


def _revenues(now: datetime) -> list[Revenue]:
    try:
        first = book_in_force(at=now).currency
    except Problem:
        return []
    return revenues(month=now, first=first, now=now)


def _overdue() -> list[Overdue]:
    rows = (
        Invoice.objects.filter(state__in=[InvoiceState.OVERDUE, InvoiceState.COLLECTION])
        .values("currency")
        .annotate(count=Count("pk"), amount=Sum("open"))
        .order_by("currency")
    )
    return [Overdue(row["currency"], row["count"], row["amount"]) for row in rows]


def _failures(now: datetime) -> Failures:
    jobs = Job.objects.filter(state=JobState.FAILED, finished_at__gt=now - DAY)
    compiles = CompileJob.objects.filter(state=CompileJob.State.FAILED, finished_at__gt=now - DAY)
    newest = [
        Failure(
            "job",
            job.finished_at or now,
            job.organisation_id,
            job.organisation.name,
            f"{job.items:,} items",
            job.problem,
        )
        for job in jobs.select_related("organisation").order_by("-finished_at")[:FAILURES_SHOWN]
    ]
    newest += [
        Failure(
            "compile",
            one.finished_at or now,
            one.organisation_id,
            one.organisation.name,
            f"{one.model_version.model.name} for {one.target}",
            str((one.error or {}).get("message", "")),
        )
        for one in compiles.select_related("organisation", "model_version__model").order_by("-finished_at")[
            :FAILURES_SHOWN
        ]
    ]
    shown = sorted(newest, key=lambda one: one.at, reverse=True)[:FAILURES_SHOWN]
    return Failures(
        jobs.count(), compiles.count(), [one._replace(reason=one.reason[:REASON_CHARACTERS]) for one in shown]
    )


def _devices() -> Counter[str]:
    rows = Device.objects.filter(owned_until=None, pool__is_active=True).values("state").annotate(count=Count("pk"))
    return Counter({row["state"]: row["count"] for row in rows.order_by()})


def _reconciliation_notices(found: Home) -> list[Notice]:
    url, run = reverse("reports:reconciliation_list"), found.reconciliation
    if run is None:
        return [Notice("No reconciliation has finished yet.", url, "Reconciliation")]
    if run.differences:
        text = f"The last reconciliation found {_counted(run.differences, 'difference')}."
        return [Notice(text, reverse("reports:reconciliation", args=[run.pk]), "Differences")]
    if run.finished_at is not None and found.now - run.finished_at > RECONCILIATION_LATE:
        return [Notice("No reconciliation has finished in the last 26 hours.", url, "Reconciliation")]
    return []


def _fleet_notices(found: Home) -> list[Notice]:
    url = reverse("fleet:fleet")
    notices = [
        Notice(f"No worker serves pool {load.pool.slug}; its jobs are waiting.", url, "Fleet")
        for load in found.capacity.pools
        if not load.fleet.alive
    ]
    for state, verb in ((DeviceState.FAILED, "failed"), (DeviceState.DRAINING, "draining")):
        count = found.devices[state]
        if count:
            notices.append(Notice(f"{_counted(count, 'device')} {verb}.", url, "Fleet"))
    return notices


def _work_notices(found: Home) -> list[Notice]:
    notices = []
    if found.failures.count:
        parts = [
            _counted(count, name)
            for count, name in ((found.failures.jobs, "job"), (found.failures.compiles, "compile"))
            if count
        ]
        notices.append(Notice(f"{' and '.join(parts)} failed in the last 24 hours.", "#failures", "Failures"))
    if found.overdue_count:
        text = f"{_counted(found.overdue_count, 'invoice')} overdue."
        notices.append(Notice(text, reverse("invoicing:payments"), "Payments"))
    if found.proposals_count:
        text = f"{_counted(found.proposals_count, 'proposal')} of the controller waiting."
        notices.append(Notice(text, reverse("reports:controller"), "Controller"))
    if any(one.whole.unknown for one in found.revenues[:1]):
        notices.append(
            Notice(
                "The cost of some devices has not been entered, so margins are unknown.",
                reverse("reports:cost_list"),
                "Costs",
            )
        )
    return notices


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
