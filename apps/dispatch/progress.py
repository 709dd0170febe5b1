"""A job's progress, times and costs, for its page and for the API."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, Q

from apps.dispatch import contracts
from apps.dispatch.models import LIVE, Job, JobStage, JobState, Lease, LeaseState
from apps.dispatch.selectors import lease_device_time
from apps.figures import money_exact_format
from apps.fleet.models import HOST_SILENT_AFTER, WorkerHost
from apps.ledger.models import UsageRow
from apps.pricing.rating import exact_sum
from apps.sales.services import contract_lease_rate

BLOCKS_SHOWN = 50
NOT_STARTED = (LeaseState.PLANNED, LeaseState.OFFERED)


class Segment(NamedTuple):
    """A period in a job's life, with a note on how the period is measured. `start` and `end` are None while unknown."""

    name: str
    start: datetime | None
    end: datetime | None
    length: timedelta | Fraction | None  # a fraction is of seconds
    note: str


class Block(NamedTuple):
    """A lease as shown on the job's page. `amount` is the cost; None if the lease has not been billed."""

    lease: Lease
    program: str
    amount: Decimal | None


class Executed(NamedTuple):
    """The largest cycle or operation count of any execution so far of a data-dependent program, and the program's bound."""

    program: str
    title: str
    bound: int
    most: int

    @property
    def part(self) -> float:
        """The largest count as a fraction of the bound."""
        return self.most / self.bound if self.bound else 0.0


class Ahead(NamedTuple):
    """The number of other jobs' blocks that start before a job's next block on the same pool. `own` counts only the
    blocks of the job's own organisation.
    """

    blocks: int
    own: int


@dataclass(frozen=True)
class JobView:
    """A job at one moment. Amounts are exact. `quoted` is the price of the job's stages under its contract.

    `fallbacks` holds a pair (confidence, output) for each program of a cascade that passes items on. An item whose
    confidence in the output is lower goes to the next program.
    """

    job: Job
    stages: list[JobStage]
    blocks: list[Block]
    blocks_done: int
    blocks_total: int
    executions_done: int
    ahead: int
    starts_at: datetime | None
    ends_at: datetime | None
    segments: list[Segment]
    cost: Decimal
    quoted: Decimal
    quoted_most: Decimal
    currency: str
    is_measured: bool
    waiting_reason: str
    has_no_room: bool
    now: datetime
    executed: list[Executed]
    fallbacks: list[tuple[str, str]]

    @property
    def share_done(self) -> float:
        """The fraction of the placed blocks that are done."""
        return self.blocks_done / self.blocks_total if self.blocks_total else 0.0

    @property
    def title(self) -> str:
        names = " then ".join(stage.program.model_version.model.name for stage in self.stages)
        return f"{names} on {self.job.contract.pool.slug}"

    @property
    def api_path(self) -> str:
        return f"/api/v1/jobs/{self.job.pk}"

    @property
    def blocks_text(self) -> str:
        """The progress as text, such as "3 of 8 blocks done"."""
        return f"{self.blocks_done:,} of {self.blocks_total:,} blocks done"

    @property
    def items_text(self) -> str:
        """The number of items as text, such as "for 300 items"."""
        return f"for {self.job.items:,} item{'' if self.job.items == 1 else 's'}"

    @property
    def starts_later(self) -> bool:
        """Whether no block has started and the device time of the first block is in the future."""
        is_waiting = all(block.lease.state in NOT_STARTED for block in self.blocks)
        return is_waiting and self.starts_at is not None and self.starts_at > self.now

    @property
    def quoted_note(self) -> str:
        """A note about the quoted amount. For a finished job, the note compares the cost with the quote."""
        if not self.job.is_final:
            return "for the blocks placed so far" if self.job.threshold is not None else "for all items"
        return self.comparison

    @property
    def comparison(self) -> str:
        if not self.difference:
            return "cost equals quote"
        side = "below" if self.difference < 0 else "above"
        why = "" if self.job.state == JobState.DONE else "; the rest did not run and is not charged"
        return f"cost is {money_exact_format(abs(self.difference), self.currency)} {side} the quote{why}"

    @property
    def blocks_shown(self) -> list[Block]:
        """The blocks that the page shows. The API lists all blocks."""
        return self.blocks[:BLOCKS_SHOWN]

    @property
    def wall(self) -> timedelta:
        """The total execution time of the blocks on the hosts, by the wall clock."""
        return timedelta(microseconds=sum(row.lease.wall_ns or 0 for row in self.blocks) // 1000)

    @property
    def difference(self) -> Decimal:
        """The cost minus the quoted amount."""
        return exact_sum([self.cost, self.quoted.copy_negate()])


def job_view(job: Job, *, now: datetime) -> JobView:
    """Return the job's progress, times and amounts at `now`."""
    stages = list(job.stages.select_related("program__model_version__model").order_by("position"))
    leases = list(Lease.objects.filter(stage__job=job).select_related("stage", "device__pool", "window"))
    placed = [lease for lease in leases if lease.state in {*LIVE, LeaseState.DONE}]
    done = [lease for lease in leases if lease.state == LeaseState.DONE]
    amounts = _amounts(job, leases)
    ahead = _ahead(job, placed)
    refusal = next((stage.waiting_reason for stage in stages if stage.waiting_reason), "")
    return JobView(
        job=job,
        stages=stages,
        blocks=_blocks(stages, leases, amounts),
        blocks_done=len(done),
        blocks_total=len(placed),
        executions_done=sum(lease.count for lease in done),
        ahead=ahead.blocks,
        starts_at=_first(placed),
        ends_at=_last(placed),
        segments=_segments(job, leases, done, now),
        cost=exact_sum(amounts.values()),
        quoted=exact_sum(_quoted(job, stage, stage.count, now) for stage in stages),
        quoted_most=_quoted_most(job, stages, now),
        currency=job.contract.currency,
        is_measured=job.contract.pool.is_host,
        waiting_reason=refusal or _waiting_reason(job, placed, ahead, now),
        has_no_room=bool(refusal),
        now=now,
        executed=[] if job.contract.pool.is_host else _executed(stages, done),
        fallbacks=fallbacks_of(job),
    )


def _first(leases: Sequence[Lease]) -> datetime | None:
    return min((lease.device_from for lease in leases), default=None)


def _last(leases: Sequence[Lease]) -> datetime | None:
    return max((lease.device_to for lease in leases), default=None)


def _blocks(stages: Sequence[JobStage], leases: Sequence[Lease], amounts: dict[UUID, Decimal]) -> list[Block]:
    names = {stage.pk: stage.program.model_version.model.name for stage in stages}
    ordered = sorted(leases, key=lambda lease: (lease.stage.position, lease.from_item))
    return [Block(lease, names[lease.stage_id], amounts.get(lease.pk)) for lease in ordered]


def _executed(stages: list[JobStage], done: list[Lease]) -> list[Executed]:
    found = []
    for stage in stages:
        counted = [lease.counters for lease in done if lease.stage_id == stage.pk and lease.counters]
        if stage.program.exact or not counted:
            continue
        name, bound = stage.program.model_version.model.name, stage.program.resources
        for key, title in (("cycles", "Latency in cycles"), ("operations", "Operations")):
            found.append(Executed(name, title, bound[key], max(one[key] for one in counted)))
    return found


def _amounts(job: Job, leases: list[Lease]) -> dict[UUID, Decimal]:
    # The query also filters by contract, because that column has an index.
    rows = UsageRow.objects.filter(contract_id=job.contract_id, lease_id__in=[lease.pk for lease in leases])
    return {lease: amount for lease, amount in rows.values_list("lease_id", "amount") if lease is not None}


def _quoted(job: Job, stage: JobStage, executions: int, now: datetime) -> Decimal:
    rating = contract_lease_rate(
        contract=job.contract,
        program_digest=stage.program.digest,
        executions=executions,
        first_instant=job.submitted_at,
        now=now,
    )
    return rating.amount


def _quoted_most(job: Job, stages: list[JobStage], now: datetime) -> Decimal:
    # For a cascade, the maximum assumes that each program passes on as many items as the contract allows.
    plan = contracts.combination_of(job.contract)
    if plan is None or plan.is_ensemble:
        return exact_sum([_quoted(job, stage, stage.count, now) for stage in stages])
    executions = {stage.program.digest: stage.count for stage in stages[:1]} | {
        program.digest: min(job.items, contracts.line_of(job.contract, program).executions)
        for program in plan.programs[1:]
    }
    ratings = [
        contract_lease_rate(
            contract=job.contract, program_digest=digest, executions=count, first_instant=job.submitted_at, now=now
        )
        for digest, count in executions.items()
    ]
    return exact_sum([rating.amount for rating in ratings])


def fallbacks_of(job: Job) -> list[tuple[str, str]]:
    """Return a pair (confidence, output) for each program of a cascade that passes items on; an empty list for other
    jobs.

    An item whose confidence in the output is lower goes to the next program.
    """
    plan = contracts.combination_of(job.contract)
    if plan is None or plan.is_ensemble:
        return []
    return [(f"{level.normalize():f}", output) for level, output in zip(plan.thresholds, plan.outputs, strict=True)]


def _ahead(job: Job, placed: list[Lease]) -> Ahead:
    waiting = [lease.device_from for lease in placed if lease.state in NOT_STARTED]
    if job.is_final or not waiting:
        return Ahead(0, 0)
    others = Lease.objects.filter(device__pool=job.contract.pool, state__in=LIVE, device_from__lt=min(waiting))
    own = Count("pk", filter=Q(stage__job__organisation=job.organisation_id))
    return Ahead(*others.exclude(stage__job=job).aggregate(n=Count("pk"), own=own).values())


def _waiting_reason(job: Job, placed: list[Lease], ahead: Ahead, now: datetime) -> str:
    """Return the reason why no block of a placed job has started; empty if there is nothing to report."""
    if job.is_final or not placed or any(lease.state not in NOT_STARTED for lease in placed):
        return ""
    pool = job.contract.pool
    if min(lease.device_from for lease in placed) > now:
        if ahead.own:
            blocks = (
                "1 block of your other jobs runs" if ahead.own == 1 else f"{ahead.own:,} blocks of your other jobs run"
            )
            return f"{blocks} on {pool.slug} before this job."
        return "The device time reserved for this job has not started."
    if not WorkerHost.objects.filter(pool=pool, last_seen__gt=now - HOST_SILENT_AFTER).exists():
        return f"No worker of pool {pool.slug} is connected. The job starts as soon as a worker connects."
    return ""


def _segments(job: Job, leases: list[Lease], done: list[Lease], now: datetime) -> list[Segment]:
    first_taken = min((lease.taken_at for lease in leases if lease.taken_at), default=None)
    queued_end = first_taken or job.finished_at
    queued = (queued_end or now) - job.submitted_at
    segments = [Segment("Queued", job.submitted_at, queued_end, queued, "wall clock, not billed")]
    if first_taken:
        length = (job.finished_at or now) - first_taken
        segments.append(Segment("Running", first_taken, job.finished_at, length, "wall clock, not billed"))
    if done:
        start, end = _first(done), _last(done)
        note = "wall clock of the host, measured" if job.contract.pool.is_host else "reserved device time, proven"
        segments.append(Segment("Billed", start, end, sum(map(lease_device_time, done), Fraction(0)), note))
    return segments
