"""What reads jobs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.dispatch import contracts
from apps.dispatch.models import FINAL, LIVE, Job, JobStage, JobState, Lease, LeaseState
from apps.ledger.models import UsageRow
from apps.pricing.rating import exact_sum
from apps.registry.feeds import TensorType
from apps.sales.models import Contract, ContractLine, FormName
from apps.sales.selectors import contracts_open
from apps.sales.services import contract_lease_rate

BLOCKS_SHOWN = 50
OFFERS_SHOWN = 20


class Segment(NamedTuple):
    """A part of a job's life: its name, when it began and ended (None: not yet), and how long it has taken so far."""

    name: str
    start: datetime | None
    end: datetime | None
    length: timedelta | Fraction | None  # a fraction is of seconds
    note: str


class BlockRow(NamedTuple):
    """A lease as the job's page shows it, with what it cost (None: nothing yet)."""

    lease: Lease
    program: str
    amount: Decimal | None
    share_done: float


class Executed(NamedTuple):
    """The most that an execution of a data-dependent program counted so far, beside the bound that it is billed by."""

    program: str
    title: str
    bound: int
    most: int

    @property
    def part(self) -> float:
        """Share of the bound."""
        return self.most / self.bound if self.bound else 0.0


@dataclass(frozen=True)
class JobView:
    """Everything about a job at one moment. Amounts are exact; `quoted` is what its stages cost by the contract."""

    job: Job
    stages: list[JobStage]
    blocks: list[BlockRow]
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
    now: datetime
    executed: list[Executed]
    handed_on: list[tuple[str, str]]

    @property
    def share_done(self) -> float:
        """0 to 1 over the blocks placed so far."""
        return self.blocks_done / self.blocks_total if self.blocks_total else 0.0

    @property
    def title(self) -> str:
        """Which models, where."""
        names = " then ".join(stage.program.model_version.model.name for stage in self.stages)
        return f"{names} on {self.job.contract.pool.slug}"

    @property
    def api_path(self) -> str:
        """Where machines read the same."""
        return f"/api/v1/jobs/{self.job.pk}"

    @property
    def blocks_text(self) -> str:
        """How far it is, in words."""
        return f"{self.blocks_done} of {self.blocks_total} blocks done"

    @property
    def items_text(self) -> str:
        """What the executions are for."""
        return f"for {self.job.items:,} items"

    @property
    def quoted_note(self) -> str:
        """Quoted against actual, in words, once nothing can change any more."""
        if not self.job.is_final:
            return "for the blocks placed so far" if self.job.threshold is not None else "for all items"
        return "cost equals quote" if not self.difference else "the rest was not run and not charged"

    @property
    def blocks_shown(self) -> list[BlockRow]:
        """The blocks that a page shows; the API lists all."""
        return self.blocks[:BLOCKS_SHOWN]

    @property
    def wall(self) -> timedelta:
        """How long the execution took on the hosts, all blocks together."""
        return timedelta(microseconds=sum(row.lease.wall_ns or 0 for row in self.blocks) // 1000)

    @property
    def difference(self) -> Decimal:
        """Cost minus quoted for what was run; zero for a job that ran in full."""
        return exact_sum([self.cost, self.quoted.copy_negate()])


def jobs_of(organisation: Organisation, *, state: str = "", contract: str = "") -> QuerySet[Job]:
    """The organisation's jobs, newest first."""
    rows = Job.objects.filter(organisation=organisation)
    if state in JobState.values:
        rows = rows.filter(state=state)
    if contract:
        rows = rows.filter(contract_id=contract)
    return rows.select_related("contract__pool", "submitted_by").order_by("-submitted_at", "-id")


def jobs_shown(organisation: Organisation, *, state: str = "", contract: str = "") -> QuerySet[Job]:
    """The same with their models and counts of blocks, which are looked up for the rows of a page alone."""
    leases = Lease.objects.filter(stage__job=OuterRef("pk")).order_by()
    holding = leases.filter(state__in=[*LIVE, LeaseState.DONE])
    return (
        jobs_of(organisation, state=state, contract=contract)
        .prefetch_related("stages__program__model_version__model")
        .annotate(
            blocks_total=_counted(holding),
            blocks_done=_counted(leases.filter(state=LeaseState.DONE)),
            starts_at=Subquery(holding.order_by("device_from").values("device_from")[:1]),
        )
    )


def _counted(leases: QuerySet[Lease]) -> Coalesce:
    """How many there are, as a column of another query."""
    return Coalesce(Subquery(leases.values("stage__job").annotate(n=Count("pk")).values("n")), 0)


class Offer(NamedTuple):
    """A contract under which a job may be submitted: its programs, what is left of each, and what they take."""

    contract: Contract
    lines: list[contracts.Line]
    inputs: list[tuple[str, list[TensorType], int]]
    combined: str = ""  # how several programs work on a job together, in words
    wanted: UUID | None = None

    @property
    def left(self) -> int:
        """Items that still may be submitted under any one program."""
        return max((left for _, _, left in self.inputs), default=0)

    @property
    def key(self) -> str:
        """The contract, and the program where the contract is a quota of any."""
        return f"{self.contract.pk}:{self.wanted}" if self.wanted else str(self.contract.pk)

    @property
    def title(self) -> str:
        """The models' names."""
        return ", ".join(dict.fromkeys(line.program.model_version.model.name for line in self.lines))


def offer_of(contract: Contract, wanted: UUID | None = None) -> Offer:
    """What a job under this contract takes, of all its programs or of the `wanted` one alone. Raises Problem."""
    lines = [line for line in contracts.lines_of(contract) if wanted in (None, line.program.pk)]
    if not lines:
        raise Problem(422, "No such program", "The contract holds no such program.", kind="not-in-contract")
    plan = contracts.combination_of(contract)
    if plan is None:
        inputs = [(f"{line.program}", contracts.inputs_of(line.program), line.left) for line in lines]
        return Offer(contract, lines, inputs, wanted=wanted)
    first, left = plan.programs[0], min(line.left for line in lines if line.program in plan.from_the_start)
    return Offer(contract, lines, [(f"{first}", contracts.inputs_of(first), left)], _combined(plan), wanted)


def _combined(plan: contracts.Combination) -> str:
    """What a combination does with an item."""
    if plan.is_ensemble:
        return "Every item runs on all three models; the answer that two of them give counts, else that of the first."
    return "Every item runs on the first model; those that it is unsure about run on the next one."


def contracts_left(organisation: Organisation, *, now: datetime) -> QuerySet[Contract]:
    """Contracts under which a job may be submitted now and of which something is left, newest first."""
    lines = ContractLine.objects.filter(contract=OuterRef("pk"), taken__lt=F("executions"))
    return contracts_open(organisation, now=now).filter(Q(form=FormName.QUOTA) | Exists(lines))


def offers_open(organisation: Organisation, *, now: datetime, wanted: str = "") -> list[Offer]:
    """Contracts with something left to run, newest first: the newest ones, and the `wanted` one, however old it is."""
    rows = contracts_left(organisation, now=now).prefetch_related("lines__program__model_version__model")
    newest = list(rows.order_by("-accepted_at", "-id")[:OFFERS_SHOWN])
    if wanted and wanted not in {str(contract.pk) for contract in newest}:
        newest += rows.filter(pk=wanted)
    offers: list[Offer] = []
    for contract in newest:
        if contract.form == FormName.QUOTA:
            offers += [offer_of(contract, line.program.pk) for line in contracts.lines_of(contract)]
        else:
            offers.append(offer_of(contract))
    return [offer for offer in offers if offer.left]


def job_view(job: Job, *, now: datetime) -> JobView:
    """The job with its progress, position, times and money."""
    stages = list(job.stages.select_related("program__model_version__model").order_by("position"))
    leases = list(Lease.objects.filter(stage__job=job).select_related("stage", "device__pool", "window"))
    holding = [lease for lease in leases if lease.state in {*LIVE, LeaseState.DONE}]
    amounts = _amounts(job, leases)
    done = [lease for lease in leases if lease.state == LeaseState.DONE]
    names = {stage.pk: stage.program.model_version.model.name for stage in stages}
    blocks = [
        BlockRow(lease, names[lease.stage_id], amounts.get(lease.pk), lease.progress / lease.count) for lease in leases
    ]
    return JobView(
        job=job,
        stages=stages,
        blocks=sorted(blocks, key=lambda row: (row.lease.stage.position, row.lease.from_item)),
        blocks_done=len(done),
        blocks_total=len(holding),
        executions_done=sum(lease.count for lease in done),
        ahead=_ahead(job, holding),
        starts_at=min((lease.device_from for lease in holding), default=None),
        ends_at=max((lease.device_to for lease in holding), default=None),
        segments=_segments(job, leases, done, now),
        cost=exact_sum(amounts.values()),
        quoted=exact_sum(_quoted(job, stage, stage.count, now) for stage in stages),
        quoted_most=_quoted_most(job, stages, now),
        currency=job.contract.currency,
        is_measured=job.contract.pool.is_host,
        waiting_reason=next((stage.waiting_reason for stage in stages if stage.waiting_reason), ""),
        now=now,
        executed=[] if job.contract.pool.is_host else _executed(stages, done),
        handed_on=handing_on(job),
    )


def _executed(stages: list[JobStage], done: list[Lease]) -> list[Executed]:
    """Per program whose cost the data decides: cycles and operations of its dearest execution in the blocks that are done."""
    found = []
    for stage in stages:
        counted = [lease.counters for lease in done if lease.stage_id == stage.pk and lease.counters]
        if stage.program.exact or not counted:
            continue
        name, bound = stage.program.model_version.model.name, stage.program.resources
        for key, title in (("cycles", "Latency in cycles"), ("operations", "Operations")):
            found.append(Executed(name, title, bound[key], max(one[key] for one in counted)))
    return found


def _amounts(job: Job, leases: list[Lease]) -> dict[object, Decimal]:
    """What the ledger says each lease cost; rows of usage are found by their contract."""
    rows = UsageRow.objects.filter(contract_id=job.contract_id, lease_id__in=[lease.pk for lease in leases])
    return dict(rows.values_list("lease_id", "amount"))


def _quoted(job: Job, stage: JobStage, executions: int, now: datetime) -> Decimal:
    """The contract's price of that many executions of the stage's program."""
    rating = contract_lease_rate(
        contract=job.contract,
        program_digest=stage.program.digest,
        executions=executions,
        first_instant=job.submitted_at,
        now=now,
    )
    return rating.amount


def _quoted_most(job: Job, stages: list[JobStage], now: datetime) -> Decimal:
    """The price if every program of a cascade handed on as many items as the contract holds; otherwise the quoted price."""
    plan = contracts.combination_of(job.contract)
    if plan is None or plan.is_ensemble:
        return exact_sum([_quoted(job, stage, stage.count, now) for stage in stages])
    often = {stage.program.digest: stage.count for stage in stages[:1]} | {
        program.digest: min(job.items, contracts.line_of(job.contract, program).executions)
        for program in plan.programs[1:]
    }
    ratings = [
        contract_lease_rate(
            contract=job.contract, program_digest=digest, executions=count, first_instant=job.submitted_at, now=now
        )
        for digest, count in often.items()
    ]
    return exact_sum([rating.amount for rating in ratings])


def handing_on(job: Job) -> list[tuple[str, str]]:
    """(confidence, output) below which each program of a cascade hands an item on to the next; of an ensemble nothing."""
    plan = contracts.combination_of(job.contract)
    if plan is None or plan.is_ensemble:
        return []
    return [(f"{level.normalize():f}", output) for level, output in zip(plan.thresholds, plan.outputs, strict=True)]


def _ahead(job: Job, holding: list[Lease]) -> int:
    """Blocks of other jobs that come before this job's next one on its pool."""
    waiting = [lease.device_from for lease in holding if lease.state in {LeaseState.PLANNED, LeaseState.OFFERED}]
    if job.state in FINAL or not waiting:
        return 0
    others = Lease.objects.filter(device__pool=job.contract.pool, state__in=LIVE, device_from__lt=min(waiting))
    return others.exclude(stage__job=job).count()


def lease_device_time(lease: Lease) -> Fraction:
    """Seconds for which a lease kept its device to itself: its executions times the cycles between two of them, as revenue
    and utilisation count it; on a host the wall clock, measured."""
    if lease.device.pool.is_host:
        return Fraction((lease.device_to - lease.device_from) // timedelta(microseconds=1), 10**6)
    return Fraction(lease.next_cycle - lease.first_cycle, lease.stage.clock_hz)


def _segments(job: Job, leases: list[Lease], done: list[Lease], now: datetime) -> list[Segment]:
    """Queued, running, billed: the first two by the wall clock, the last in device time."""
    first_taken = min((lease.taken_at for lease in leases if lease.taken_at), default=None)
    queued_end = first_taken or job.finished_at
    segments = [
        Segment(
            "Queued", job.submitted_at, queued_end, (queued_end or now) - job.submitted_at, "wall clock, not billed"
        )
    ]
    if first_taken:
        length = (job.finished_at or now) - first_taken
        segments.append(Segment("Running", first_taken, job.finished_at, length, "wall clock, not billed"))
    if done:
        start, end = min(lease.device_from for lease in done), max(lease.device_to for lease in done)
        note = "wall clock of the host, measured" if job.contract.pool.is_host else "device time, proven"
        segments.append(Segment("Billed", start, end, sum(map(lease_device_time, done), Fraction(0)), note))
    return segments


def queue_depths() -> dict[str, dict[str, int]]:
    """Leases that wait or run, by pool and state."""
    rows = (
        Lease.objects.filter(state__in=LIVE)
        .values("device__pool__slug", "state")
        .annotate(n=Count("pk"), items=Sum("count"), latest=Max("device_from"))
        .order_by()
    )
    depths: dict[str, dict[str, int]] = {}
    for row in rows:
        depths.setdefault(row["device__pool__slug"], {})[row["state"]] = row["n"]
    return depths
