"""Checks a customer's whole ledger in a worker, and stores the result (docs/adr/0075).

Every check starts with the first transaction, because rows may have been altered since an earlier check.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F, OuterRef, Q, Subquery

from apps.accounts.broker import task_send_on_commit
from apps.accounts.models import Organisation, User
from apps.accounts.rates import Rate
from apps.accounts.turns import turn
from apps.invoicing.models import LedgerCheck
from apps.invoicing.reconciliation import FullReconciliation, reconcile_all
from apps.ledger.models import Chain
from apps.pricing.rating import decimal_text

QUEUE = "books"
TASK = "apps.invoicing.tasks.ledger_check"
REQUEST_RATE = Rate("ledger check", 12, 3600)  # by organisation
LOST_AFTER = timedelta(seconds=60)  # a task lost with its message or its worker
# A grown ledger is checked again after an hour; a slow check runs in at most a hundredth of the time.
EVERY = timedelta(hours=1)
PAUSE_FACTOR = 100

Clock = Callable[[], datetime]


def last_check(organisation_id: UUID) -> LedgerCheck | None:
    """Return the newest finished check; None if no check has finished."""
    done = LedgerCheck.objects.filter(organisation_id=organisation_id, finished_at__isnull=False)
    return done.order_by("-read_at", "-id").first()


def open_check(organisation_id: UUID) -> LedgerCheck | None:
    """Return the requested check that has not finished; None if there is no such check."""
    return LedgerCheck.objects.filter(organisation_id=organisation_id, finished_at=None).first()


@transaction.atomic
def ledger_check_request(*, organisation: Organisation, actor: User | None, now: datetime) -> LedgerCheck:
    """Store and queue a request for a check. If an earlier request is still open, return that request."""
    made = LedgerCheck(organisation=organisation, asked_by=actor, asked_at=now)
    LedgerCheck.objects.bulk_create([made], ignore_conflicts=True)
    check = LedgerCheck.objects.get(organisation=organisation, finished_at=None)
    task_send_on_commit(TASK, queue=QUEUE, check_id=str(check.pk))
    return check


def ledger_check_run(*, check_id: UUID, clock: Clock) -> LedgerCheck:
    """Run the check and store the result. Does nothing if the check has finished or another process is running it."""
    check = LedgerCheck.objects.select_related("organisation").get(pk=check_id)
    with turn(f"ledger check {check.organisation_id}") as is_ours:
        if check.finished_at is not None or not is_ours:
            return check
        read_at = max(clock(), check.asked_at)  # if the clock was set back, the request is answered anyway
        found = reconcile_all(check.organisation)
        return ledger_check_keep(organisation=check.organisation, found=found, read_at=read_at, now=clock())


@transaction.atomic
def ledger_check_keep(
    *, organisation: Organisation, found: FullReconciliation, read_at: datetime, now: datetime
) -> LedgerCheck:
    """Store the result of a reconciliation that read all data at `read_at`.

    The result completes the open request if that request was made by `read_at`.
    """
    asked = LedgerCheck.objects.select_for_update().filter(organisation=organisation, finished_at=None)
    check = asked.filter(asked_at__lte=read_at).first() or LedgerCheck(organisation=organisation, asked_at=read_at)
    chain = found.ledger.chain
    check.read_at, check.finished_at = read_at, max(read_at, now)
    check.sequence, check.head, check.broken_at, check.reason = (
        chain.transactions,
        chain.head,
        chain.broken_at,
        chain.reason,
    )
    check.amounts = [
        {name: one if isinstance(one, str) else decimal_text(one) for name, one in sums._asdict().items()}
        for sums in found.sums
    ]
    check.differences = found.differences
    check.save()
    return check


def ledger_checks_make_due(*, now: datetime, clock: Clock) -> int:
    """Run all checks that are due. Return the number of finished checks."""
    lost = LedgerCheck.objects.filter(finished_at=None, asked_at__lte=now - LOST_AFTER).order_by("asked_at")
    made = [ledger_check_run(check_id=pk, clock=clock) for pk in lost.values_list("pk", flat=True)]
    newest = LedgerCheck.objects.filter(organisation=OuterRef("organisation"), finished_at__isnull=False)
    newest = newest.order_by("-read_at", "-id")
    grown = Chain.objects.annotate(
        seen=Subquery(newest.values("sequence")[:1]),
        read_at=Subquery(newest.values("read_at")[:1]),
        ended_at=Subquery(newest.values("finished_at")[:1]),
    ).filter(Q(seen=None) | Q(seen__lt=F("sequence")), sequence__gt=0)
    for chain in grown.select_related("organisation").order_by(F("read_at").asc(nulls_first=True), "organisation_id"):
        if chain.read_at is None or now - chain.read_at >= max(EVERY, PAUSE_FACTOR * (chain.ended_at - chain.read_at)):
            asked = ledger_check_request(organisation=chain.organisation, actor=None, now=clock())
            made.append(ledger_check_run(check_id=asked.pk, clock=clock))
    return sum(one.finished_at is not None for one in made)
