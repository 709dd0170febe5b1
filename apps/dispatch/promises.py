"""Evaluates the promises of a plan, for one job or for a contract with all its jobs. Reads only.

Latency is counted in device cycles. Work is complete when the results are stored. The metric needs labels, which are
added later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.db.models import Sum

from apps.dispatch.models import Job, JobLabels, JobStage, JobState, Lease, LeaseState
from apps.figures import duration_format, instant_format, money_exact_format, percent_format
from apps.planner.score_format import DEFAULT, score_format_of
from apps.registry.confidence import upper_bound
from apps.sales.models import Contract
from apps.sales.selectors import contract_usage
from apps.timetable.models import Window

OPEN, KEPT, MISSED, CHANCE, UNJUDGED = "not known yet", "kept", "missed", "within chance", "not judged"
NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Promise:
    """A promise and its outcome.

    `promised` and the actual value `kept` are exact: a fraction for seconds or a share, an instant, or an amount.
    `kept` is empty while the actual value is unknown. `verdict` is "kept", "missed", "within chance" (the shortfall may
    be due to chance), "not known yet" or "not judged" (items were submitted too late).
    """

    name: str
    title: str
    promised: str
    kept: str
    verdict: str
    promised_text: str
    kept_text: str

    def to_json(self) -> dict[str, Any]:
        """Return the promise as the API shows it."""
        return {"name": self.name, "promised": self.promised, "kept": self.kept, "verdict": self.verdict}


def promises_of_job(job: Job, *, now: datetime) -> list[Promise]:
    """Return the promises of the job's contract that apply to a single job."""
    return _promises(job.contract, [job], now=now, is_whole=False)


def promises_of_contract(contract: Contract, *, now: datetime) -> list[Promise]:
    """Return all promises of a contract, evaluated over all its jobs."""
    jobs = Job.objects.filter(contract=contract).select_related("contract__pool").order_by("submitted_at")
    return _promises(contract, list(jobs), now=now, is_whole=True)


def _promises(contract: Contract, jobs: Sequence[Job], *, now: datetime, is_whole: bool) -> list[Promise]:
    promises = contract.terms.get("promises")
    if promises is None:
        return []
    promised = promises["candidate"]
    found = []
    if "accuracy" in promised:
        found.append(_accuracy(promises, jobs))
    if "latency" in promised:
        found.append(_latency(Fraction(promised["latency"]), contract, jobs))
    completion = promised.get("completion")
    if completion is not None and (is_whole or jobs[0].items >= promises["items"]):
        found.append(_completion(datetime.fromisoformat(completion), promises["items"], jobs, contract, now))
    if "price" in promised and is_whole:
        found.append(_price(contract, Decimal(promised["price"])))
    return found


def _accuracy(promises: dict[str, Any], jobs: Sequence[Job]) -> Promise:
    least, data = Fraction(promises["candidate"]["accuracy"]), promises["data"]
    measure = score_format_of(data["metric"] if data else DEFAULT)
    on = f" ({data['metric']} on {data['name']}, {data['digest'][:12]})" if data else ""
    said = f"{measure.side} {measure.text(least)}{on}"
    if not measure.counts_items:
        why = "labels of a job cannot measure this: they say which items are right"
        return Promise("accuracy", measure.title, str(least), "", OPEN, said, why)
    judged = JobLabels.objects.filter(job__in=jobs).aggregate(correct=Sum("correct"), total=Sum("total"))
    correct, total = judged["correct"], judged["total"]
    if not total:
        return Promise("accuracy", measure.title, str(least), "", OPEN, said, "add labels to a finished job")
    share = Fraction(correct, total)
    # A lower share may be chance: the promise is missed if the true share misses it with 95 % confidence.
    verdict = KEPT if share >= least else CHANCE if upper_bound(correct, total) >= least else MISSED
    text = f"{percent_format(share, 2)}: {correct:,} of {total:,} labelled items"
    return Promise("accuracy", measure.title, str(least), str(share), verdict, said, text)


def _latency(most: Fraction, contract: Contract, jobs: Sequence[Job]) -> Promise:
    # One item may run on several programs, so the actual latency is the sum of each program's longest execution so
    # far.
    worst: dict[int, Fraction] = {}
    stages = JobStage.objects.filter(job__in=jobs)
    leases = Lease.objects.filter(stage__in=stages, state=LeaseState.DONE).select_related("stage")
    for lease in leases.only("counters", "count", "device_from", "device_to", "stage__clock_hz", "stage__position"):
        longest = _seconds(lease, is_host=contract.pool.is_host)
        if longest is not None:
            worst[lease.stage.position] = max(worst.get(lease.stage.position, Fraction(0)), longest)
    said, how = duration_format(most), "measured" if contract.pool.is_host else "counted in device cycles"
    if not worst:
        return Promise("latency", "Latency of one item", str(most), "", OPEN, said, "nothing has run yet")
    actual = sum(worst.values(), Fraction(0))
    verdict = KEPT if actual <= most else MISSED
    return Promise(
        "latency", "Latency of one item", str(most), str(actual), verdict, said, f"{duration_format(actual)}, {how}"
    )


def _seconds(lease: Lease, *, is_host: bool) -> Fraction | None:
    # On a host pool, only whole leases are timed, so the mean is used.
    if is_host:
        micros = int((lease.device_to - lease.device_from).total_seconds() * 10**6)
        return Fraction(micros, 10**6 * lease.count)
    return Fraction(lease.counters["cycles"], lease.stage.clock_hz) if lease.counters else None


def _completion(by: datetime, items: int, jobs: Sequence[Job], contract: Contract, now: datetime) -> Promise:
    done, at = _items_done(items, jobs)
    zone = contract.organisation.time_zone
    text = f"{done:,} of {items:,} items done" if at is None else instant_format(at, zone, seconds=True)
    verdict = OPEN if at is None else KEPT
    if (at or now) > by:
        verdict = MISSED
        if (at or now) <= _due(by, items, jobs, contract, now):
            verdict, text = UNJUDGED, f"{text}; items were submitted after the reserved time had begun"
    promised = f"by {instant_format(by, zone, seconds=True)}"
    return Promise(
        "completion", "All items done", by.isoformat(), at.isoformat() if at else "", verdict, promised, text
    )


def _items_done(items: int, jobs: Sequence[Job]) -> tuple[int, datetime | None]:
    """Return the number of items in finished jobs, and the instant at which the last promised item was done; None while
    promised items are missing.
    """
    done = 0
    for job in sorted((one for one in jobs if one.state == JobState.DONE and one.finished_at), key=_finished):
        done += job.items
        if done >= items:
            return done, _finished(job)
    return done, None


def _due(by: datetime, items: int, jobs: Sequence[Job], contract: Contract, now: datetime) -> datetime:
    # The items are due later than promised if they were submitted late. NEVER: they were submitted after the promised
    # instant, or not at all.
    submitted, last = 0, now
    for job in sorted(jobs, key=lambda one: one.submitted_at):
        submitted, last = submitted + job.items, job.submitted_at
        if submitted >= items:
            break
    if submitted < items or last >= by:
        return NEVER
    first = Window.objects.filter(reservation=contract.reservation_id).order_by("period").first()
    return by + max(last - (contract.starts_at if first is None else first.start), timedelta(0))


def _finished(job: Job) -> datetime:
    assert job.finished_at is not None
    return job.finished_at


def _price(contract: Contract, most: Decimal) -> Promise:
    actual, unit = contract_usage(contract).actual, contract.terms["currency"]
    verdict = MISSED if actual > most else KEPT if actual or contract.closed_at else OPEN
    said = f"at most {money_exact_format(most, unit)}"
    return Promise(
        "price", "Price", str(most), str(actual), verdict, said, f"{money_exact_format(actual, unit)} so far"
    )
