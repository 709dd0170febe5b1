"""Computes the usage and cost of a finished lease."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import Any

from django.db.models import Max

from apps.dispatch import contracts
from apps.dispatch.delivery import class_delivered
from apps.dispatch.models import Job, Lease
from apps.ledger.usage import Usage
from apps.pricing.rating import Counts
from apps.sales.selectors import contract_duration
from apps.sales.services import contract_lease_rate


def usage_of(*, lease: Lease, job: Job, counters: dict[str, Any], now: datetime) -> Usage:
    """Return the usage of a lease, rated under its contract's frozen terms. The idempotency key is the same for all
    epochs.

    `counters` are those of the longest execution in the block.
    """
    program = lease.stage.program
    model = program.model_version.model
    rating = contract_lease_rate(
        contract=job.contract,
        program_digest=program.digest,
        executions=lease.count,
        first_instant=lease.device_from,
        now=now,
        seconds=_seconds(lease),
        measured=_measured(lease, counters),
        served=delivered_class(lease, job),
    )
    return Usage(
        organisation_id=job.organisation_id,
        contract_id=job.contract_id,
        lease_id=lease.pk,
        idempotency_key=f"lease:{lease.pk}",
        operations=rating.counted_operations,
        cycles=contracts.counts_of(program).cycles * lease.count,
        program_digest=program.digest,
        project_id=model.project_id,
        token_id=job.token_id,
        model_name=model.name,
        rating=rating,
        occurred_from=lease.device_from,
        occurred_to=lease.device_to,
    )


def delivered_class(lease: Lease, job: Job) -> str:
    """Return the delivered class if it is lower than the contract's class; otherwise an empty text."""
    contract, stage = job.contract, lease.stage
    book = contract.book
    work = max(contract_duration(contract), stage.pace.duration(stage.count))
    return class_delivered(book=book, bought=contract.klass, since=_since(lease, job), work=work, end=lease.device_to)


def _since(lease: Lease, job: Job) -> datetime:
    # The promise of the class counts once the stage's items are known and the contract has started.
    begun = max(job.submitted_at, job.contract.starts_at)
    if not lease.stage.selection_key:  # all items of the job: known from the start
        return begun
    before = Lease.objects.filter(stage__job=job, stage__position__lt=lease.stage.position)
    known = before.aggregate(at=Max("finished_at"))["at"]
    return begun if known is None else max(begun, known)


def _seconds(lease: Lease) -> Fraction:
    # On a host pool, only whole leases are timed, so the mean is used.
    if not lease.device.pool.is_host:
        return lease.stage.pace.each
    span = lease.device_to - lease.device_from
    return Fraction((span.days * 86_400 + span.seconds) * 10**6 + span.microseconds, 10**6 * lease.count)


def _measured(lease: Lease, counters: dict[str, Any]) -> Counts | None:
    if lease.device.pool.is_host or lease.stage.program.exact:
        return None
    return Counts(counters["operations"] * lease.count, counters["interval"] * lease.count)
