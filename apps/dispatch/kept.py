"""What was promised beside what was kept: of a job, and of a contract with all its jobs. Reads only.

Latency is counted in device cycles, completion is the moment at which the results were stored, the metric is judged by labels
that came afterwards.
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
    """One promise. `promised` and `kept` are exact (a fraction in seconds or a share, an instant, an amount); `kept` is empty
    where nothing is known yet. `verdict`: kept, missed, "within chance" (below, but not proven to be), "not known yet", "not
    judged" (the items came too late)."""

    name: str
    title: str
    promised: str
    kept: str
    verdict: str
    promised_text: str
    kept_text: str

    def to_json(self) -> dict[str, Any]:
        """As the API says it."""
        return {"name": self.name, "promised": self.promised, "kept": self.kept, "verdict": self.verdict}


def promises_of_job(job: Job, *, now: datetime) -> list[Promise]:
    """The promises of the job's contract as far as one job can keep them."""
    return _promises(job.contract, [job], now=now, is_whole=False)


def promises_of_contract(contract: Contract, *, now: datetime) -> list[Promise]:
    """The same over all jobs of the contract, with its price."""
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
        why = "no labels of a job tell it: they say which items are right"
        return Promise("accuracy", measure.title, str(least), "", OPEN, said, why)
    judged = JobLabels.objects.filter(job__in=jobs).aggregate(correct=Sum("correct"), total=Sum("total"))
    correct, total = judged["correct"], judged["total"]
    if not total:
        return Promise("accuracy", measure.title, str(least), "", OPEN, said, "add labels to a finished job")
    share = Fraction(correct, total)
    # Below it may be the luck of these items: missed is what the true share misses with 95 % confidence.
    verdict = KEPT if share >= least else CHANCE if upper_bound(correct, total) >= least else MISSED
    text = f"{percent_format(share, 2)}: {correct:,} of {total:,} labelled items"
    return Promise("accuracy", measure.title, str(least), str(share), verdict, said, text)


def _latency(most: Fraction, contract: Contract, jobs: Sequence[Job]) -> Promise:
    """The dearest execution so far, of each program one, since an item may pass all of them."""
    worst: dict[int, Fraction] = {}
    stages = JobStage.objects.filter(job__in=jobs)
    leases = Lease.objects.filter(stage__in=stages, state=LeaseState.DONE).select_related("stage")
    for lease in leases.only("counters", "count", "device_from", "device_to", "stage__clock_hz", "stage__position"):
        taken = _seconds(lease, is_host=contract.pool.is_host)
        if taken is not None:
            worst[lease.stage.position] = max(worst.get(lease.stage.position, Fraction(0)), taken)
    said, how = duration_format(most), "measured" if contract.pool.is_host else "counted in device cycles"
    if not worst:
        return Promise("latency", "Latency of one item", str(most), "", OPEN, said, "nothing has run yet")
    kept = sum(worst.values(), Fraction(0))
    verdict = KEPT if kept <= most else MISSED
    return Promise(
        "latency", "Latency of one item", str(most), str(kept), verdict, said, f"{duration_format(kept)}, {how}"
    )


def _seconds(lease: Lease, *, is_host: bool) -> Fraction | None:
    """The longest execution of a lease; on a host, whose clock runs on, the mean of them."""
    if is_host:
        micros = int((lease.device_to - lease.device_from).total_seconds() * 10**6)
        return Fraction(micros, 10**6 * lease.count)
    return Fraction(lease.counters["cycles"], lease.stage.clock_hz) if lease.counters else None


def _completion(by: datetime, items: int, jobs: Sequence[Job], contract: Contract, now: datetime) -> Promise:
    """When the results of the last of the promised items were stored."""
    done, at, zone = 0, None, contract.organisation.time_zone
    for job in sorted((one for one in jobs if one.state == JobState.DONE and one.finished_at), key=_finished):
        done, at = done + job.items, _finished(job)
        if done >= items:
            break
    said, is_done = f"by {instant_format(by, zone, seconds=True)}", at is not None and done >= items
    kept = at if at is not None and is_done else None
    text = f"{done:,} of {items:,} items done" if kept is None else instant_format(kept, zone, seconds=True)
    verdict = OPEN if kept is None else KEPT
    if (kept or now) > by:
        verdict = MISSED
        if (kept or now) <= _due(by, items, jobs, contract, now):
            verdict, text = UNJUDGED, f"{text}; items were submitted after the reserved time had begun"
    return Promise(
        "completion", "All items done", by.isoformat(), kept.isoformat() if kept else "", verdict, said, text
    )


def _due(by: datetime, items: int, jobs: Sequence[Job], contract: Contract, now: datetime) -> datetime:
    """The instant that was promised, as much later as the items were submitted after their reserved time had begun; never
    where they were submitted after that instant, or are not all there yet."""
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
