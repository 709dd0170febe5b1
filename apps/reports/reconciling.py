"""Reconcile all executed, metered, rated, posted and invoiced work, by organisation.

All data of an organisation are read as of one instant.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, Sum

from apps.accounts.models import Organisation, User
from apps.accounts.services import audit_record
from apps.accounts.turns import turn
from apps.collection.customers import client_of_settings
from apps.collection.gateway import OutcomeUnknown
from apps.collection.reconciliation import check_run
from apps.dispatch.models import Lease, LeaseState
from apps.invoicing.ledger_checks import ledger_check_keep
from apps.invoicing.models import InvoicedUsage
from apps.invoicing.outbox import outbox_write
from apps.invoicing.reconciliation import FullReconciliation, reconcile_all
from apps.ledger.instant import one_instant
from apps.ledger.models import UsageRow
from apps.ledger.selectors import executions_sum
from apps.pricing.rating import decimal_text
from apps.reports.device_hour_check import device_hour_faults
from apps.reports.models import ReconciliationRow, ReconciliationRun

TOPIC = "reconciliation.differs"
NAMED = 100  # differences of each kind that are listed

log = structlog.get_logger("reconciliation")


@dataclass(frozen=True)
class Stage:
    """A stage that work passes through. A number or amount that the stage lacks is None."""

    name: str
    rows: int
    executions: int | None
    amounts: dict[str, str] | None

    def to_json(self) -> dict[str, Any]:
        """Return the stage in its stored form."""
        return {"name": self.name, "rows": self.rows, "executions": self.executions, "amounts": self.amounts}


@dataclass(frozen=True)
class Compared:
    """The stages of an organisation in order, a sentence for each difference, and the full reconciliation (`found`)."""

    stages: list[Stage]
    differences: list[str]
    found: FullReconciliation


_MATCHED = """
SELECT executed.id::text, metered.idempotency_key, executed.count, metered.quantity
FROM (
    SELECT lease.id, lease.count FROM dispatch_lease AS lease
    JOIN dispatch_jobstage AS stage ON stage.id = lease.stage_id JOIN dispatch_job AS job ON job.id = stage.job_id
    WHERE lease.state = 'done' AND job.organisation_id = %(organisation)s
) AS executed FULL JOIN (
    SELECT lease_id, idempotency_key, quantity FROM ledger_usagerow
    WHERE organisation_id = %(organisation)s AND lease_id IS NOT NULL
) AS metered ON metered.lease_id = executed.id
WHERE executed.count IS DISTINCT FROM metered.quantity ORDER BY 1, 2 LIMIT %(limit)s
"""


def organisation_compare(organisation: Organisation) -> Compared:
    """Compare the counts and sums of an organisation's work at each stage, from execution to invoice."""
    with one_instant():
        found = reconcile_all(organisation)
        leases = Lease.objects.filter(stage__job__organisation=organisation, state=LeaseState.DONE).order_by()
        executed = leases.aggregate(rows=Count("id"), executions=Sum("count"))
        rows = UsageRow.objects.filter(organisation=organisation).order_by()
        metered = rows.filter(lease_id__isnull=False).aggregate(rows=Count("id"), executions=Sum("quantity"))
        unused = rows.filter(lease_id__isnull=True).aggregate(rows=Count("id"), executions=executions_sum())
        invoiced = InvoicedUsage.objects.filter(usage__organisation=organisation).count()
        unmatched = _unmatched(organisation.id) + device_hour_faults(organisation.id, limit=NAMED)
    ledger = found.ledger
    stages = [
        Stage("executed", executed["rows"], executed["executions"] or 0, None),
        Stage("metered", metered["rows"], metered["executions"] or 0, None),
        Stage("unused", unused["rows"], unused["executions"] or 0, None),
        Stage("used and unused", ledger.rows, None, _amounts(found, "metered")),
        Stage("rated", ledger.rows, None, _amounts(found, "rated")),
        Stage("posted", ledger.rows, None, _amounts(found, "posted")),
        Stage("invoiced", invoiced, None, _amounts(found, "invoiced")),
        Stage("not yet invoiced", ledger.rows - invoiced, None, _amounts(found, "not_yet_invoiced")),
    ]
    return Compared(stages, [*unmatched, *found.differences], found)


def _amounts(found: FullReconciliation, name: str) -> dict[str, str]:
    return {one.currency: decimal_text(getattr(one, name)) for one in found.sums}


def _unmatched(organisation_id: UUID) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(_MATCHED, {"organisation": organisation_id, "limit": NAMED})
        found = cursor.fetchall()
    sentences = []
    for lease, key, count, quantity in found:
        if key is None:
            sentences.append(f"lease {lease} ran {count} executions, but has no usage row")
        elif lease is None:
            sentences.append(f"usage {key} has {quantity} executions, but its lease did not finish")
        else:
            sentences.append(f"usage {key} has {quantity} executions, but its lease {lease} ran {count}")
    return sentences


@transaction.atomic
def reconciliation_request(*, asked_by: User | None, now: datetime) -> ReconciliationRun:
    """Create a run for a worker to carry out."""
    run = ReconciliationRun.objects.create(asked_by=asked_by, started_at=now)
    if asked_by is not None:
        audit_record(action="reconciliation.ask", subject=f"reconciliation {run.id}", actor=asked_by, now=now)
    return run


def reconciliation_run(*, run_id: UUID, now: datetime) -> ReconciliationRun:
    """Compare the remaining organisations, then finish the run. Safe to repeat."""
    run = ReconciliationRun.objects.get(pk=run_id)
    with turn(f"reconciliation {run_id}") as is_ours:
        if run.finished_at is not None or not is_ours:
            return run
        compared = run.rows.values("organisation_id")
        for organisation in Organisation.objects.exclude(pk__in=compared).order_by("id"):
            began = monotonic()
            found = organisation_compare(organisation)
            _row_store(run, organisation, found, now, now + timedelta(seconds=monotonic() - began))
        return _finish(run, _stripe_compare(now), now)


def _stripe_compare(now: datetime) -> dict[str, Any] | None:
    if not settings.STRIPE_API_KEY:
        return None
    try:
        check = check_run(client=client_of_settings(), now=now)
    except OutcomeUnknown as outage:
        return {"rows": [], "differences": [f"Stripe could not be compared: {outage}"]}
    return {"rows": check.rows, "differences": check.differences}


@transaction.atomic
def _row_store(
    run: ReconciliationRun, organisation: Organisation, found: Compared, now: datetime, until: datetime
) -> None:
    row = ReconciliationRow(
        run=run,
        organisation=organisation,
        stages=[stage.to_json() for stage in found.stages],
        differences=found.differences,
        compared_at=now,
    )
    if ReconciliationRow.objects.filter(run=run, organisation=organisation).exists():
        return  # another delivery of the task has stored it
    row.save(force_insert=True)
    ledger_check_keep(organisation=organisation, found=found.found, read_at=now, now=until)
    if found.differences:
        log.error(
            TOPIC,
            run=str(run.id),
            organisation=organisation.slug,
            differences=len(found.differences),
            first=found.differences[0],
        )
        payload = {"run": str(run.id), "differences": len(found.differences), "first": found.differences[0]}
        outbox_write(organisation_id=organisation.id, topic=TOPIC, payload=payload, now=now)


@transaction.atomic
def _finish(run: ReconciliationRun, stripe: dict[str, Any] | None, now: datetime) -> ReconciliationRun:
    run = ReconciliationRun.objects.select_for_update().get(pk=run.pk)
    if run.finished_at is None:
        differences = list(run.rows.values_list("differences", flat=True))
        run.organisations, run.stripe, run.finished_at = len(differences), stripe, now
        run.differences = sum(len(one) for one in differences) + len((stripe or {}).get("differences", []))
        run.save(update_fields=["organisations", "differences", "stripe", "finished_at"])
        if stripe and stripe["differences"]:
            log.error(TOPIC, run=str(run.id), stripe=True, first=stripe["differences"][0])
    return run


def reconciliation_daily(*, now: datetime) -> ReconciliationRun | None:
    """Run today's reconciliation (UTC), unless it is finished."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    of_today = ReconciliationRun.objects.filter(
        asked_by=None, started_at__gte=today, started_at__lt=today + timedelta(1)
    )
    if of_today.exclude(finished_at=None).exists():
        return None
    run = of_today.first() or reconciliation_request(asked_by=None, now=now)
    return reconciliation_run(run_id=run.id, now=now)
