"""Fills a database with one large customer, for measurements of many rows.

Contracts, usage and invoices are made by the services that make them in the product, at instants of the past half year.
Jobs and leases are written in bulk, since executing them is what takes the time: each lease that is done has its usage
row, so that the reconciliation of what was executed, metered, posted and invoiced finds no difference.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from apps.compilation.models import Program
    from apps.dispatch.models import Job, JobStage, Lease
    from apps.pricing.rating import Rating
    from apps.sales.models import Contract
    from tests.cast import Cast
    from tests.sales.market import Market

PAST = timedelta(days=180)
RECENT = timedelta(days=30)
PER_LEASE = 5  # items
SHARE_OPEN = 0.8  # of the contracts, whose window reaches beyond today
PROGRAMS = 50
PROJECTS = 10


@dataclass(frozen=True)
class Volume:
    """How much there is of everything."""

    contracts: int
    jobs: int
    usages: int

    @property
    def leases(self) -> int:
        """Of each job; one of a hundred jobs waits, and has no usage yet."""
        return -(-self.usages * 100 // (self.jobs * 99))

    @property
    def jobs_each(self) -> int:
        """Of each contract, at most."""
        return -(-self.jobs // self.contracts)


@dataclass
class Filling:
    """One customer who grows: every call of `grow` adds contracts with their jobs and usage."""

    cast: Cast
    market: Market
    now: datetime
    whole: Volume
    programs: list[Program] = field(default_factory=list)
    contracts: list[Contract] = field(default_factory=list)
    jobs: int = 0

    def grow(self, contracts: int) -> None:
        """Until there are so many contracts; the rest in proportion."""
        from django.db import transaction

        while len(self.contracts) < contracts:
            contract = self._contract(len(self.contracts))
            self.contracts.append(contract)
            wanted = self.whole.jobs * len(self.contracts) // self.whole.contracts - self.jobs
            with transaction.atomic():
                self._jobs(contract, wanted)
            self.jobs += wanted

    def _window(self, number: int) -> tuple[datetime, datetime]:
        """From when a contract is accepted to when it ends; spread evenly, those of a small filling too."""
        share = (number * 7919 % self.whole.contracts) / self.whole.contracts
        if number % 10 < 10 * SHARE_OPEN:
            return self.now - RECENT + (RECENT - timedelta(days=1)) * share, self.now + RECENT
        at = self.now - PAST + (PAST - RECENT) * share
        return at, at + timedelta(days=20)

    def _contract(self, number: int) -> Contract:
        from apps.sales.services import QuoteLine, quote_accept, quote_create

        organisation = self.cast.organisation
        at, ends = self._window(number)
        program = self.programs[number % len(self.programs)]
        executions = self.whole.jobs_each * self.whole.leases * PER_LEASE * 2
        for _ in range(2 if number % 5 == 0 else 1):  # some quotes are not taken
            quote = quote_create(
                organisation=organisation,
                lines=[QuoteLine(program, executions)],
                klass="standard",
                pool=self.market.lpu,
                window=(at, ends),
                actor=self.cast.engineer,
                now=at,
            )
        return quote_accept(quote_id=quote.pk, organisation=organisation, actor=self.cast.owner, now=at)

    def _jobs(self, contract: Contract, count: int) -> None:
        """All of them done, but for the last of every fifth contract, which waits for its device time."""
        from apps.dispatch.models import Job, JobStage, Lease
        from apps.ledger.services import usage_post_batch
        from apps.sales.models import ContractLine
        from apps.timetable.models import Window

        line = ContractLine.objects.select_related("program__model_version__model").get(contract=contract)
        window = Window.objects.filter(reservation__contract_id=contract.pk).order_by("id").first()
        assert window is not None
        made = [self._job(contract, line.program, window, number) for number in range(count)]
        Job.objects.bulk_create([job for job, _, _ in made])
        JobStage.objects.bulk_create([stage for _, stage, _ in made])
        Lease.objects.bulk_create([lease for _, _, leases in made for lease in leases])
        rating = self._rating(contract, line.program)
        for job, _, leases in made:
            used = [_usage(job, lease, line.program, rating) for lease in leases if lease.state == "done"]
            if used:
                assert job.finished_at
                usage_post_batch(used, now=job.finished_at)
        line.taken = count * self.whole.leases * PER_LEASE
        line.save(update_fields=["taken"])

    def _rating(self, contract: Contract, program: Program) -> Rating:
        from apps.sales.services import contract_lease_rate

        return contract_lease_rate(
            contract=contract,
            program_digest=program.digest,
            executions=PER_LEASE,
            first_instant=contract.accepted_at,
            now=contract.accepted_at,
        )

    def _job(self, contract: Contract, program: Program, window: Any, number: int) -> tuple[Job, JobStage, list[Lease]]:
        from apps.accounts.counters import number_next
        from apps.accounts.models import NumberKind
        from apps.dispatch.models import Job, JobStage

        until = min(contract.ends_at, self.now)
        at = contract.accepted_at + (until - contract.accepted_at) * (number + 1) / (self.whole.jobs_each + 2)
        waits = contract.ends_at > self.now and len(self.contracts) % 5 == 0 and number == self.whole.jobs_each - 1
        job = Job(
            organisation=self.cast.organisation,
            number=number_next(organisation_id=self.cast.organisation.pk, kind=NumberKind.JOB),
            contract=contract,
            submitted_by=self.cast.engineer,
            items=self.whole.leases * PER_LEASE,
            state="queued" if waits else "done",
            inputs_key="inputs.npz",
            outputs_key="" if waits else "outputs.npz",
            submitted_at=at,
            started_at=None if waits else at,
            finished_at=None if waits else at + timedelta(seconds=2),
        )
        stage = JobStage(
            job=job,
            position=0,
            program=program,
            count=job.items,
            latency_cycles=program.latency_cycles,
            interval_cycles=program.interval_cycles,
            clock_hz=program.clock_hz,
            state="running" if waits else "done",
        )
        return job, stage, [_lease(stage, window, number, place) for place in range(self.whole.leases)]


def _lease(stage: JobStage, window: Any, number: int, place: int) -> Lease:
    from apps.dispatch.models import Lease

    is_done = stage.job.state == "done"
    first = (number * stage.count + place * PER_LEASE) * stage.interval_cycles
    at = stage.job.submitted_at if is_done else stage.job.contract.ends_at - timedelta(days=1)
    at += timedelta(milliseconds=place)
    ended = stage.job.finished_at if is_done else None
    return Lease(
        stage=stage,
        window=window,
        device_id=window.device_id,
        from_item=place * PER_LEASE,
        count=PER_LEASE,
        first_cycle=first,
        next_cycle=first + PER_LEASE * stage.interval_cycles,
        state="done" if is_done else "planned",
        device_from=at,
        device_to=at + timedelta(milliseconds=1),
        taken_at=ended,
        heartbeat_at=ended,
        finished_at=ended,
        host="near" if is_done else "",
        progress=PER_LEASE if is_done else 0,
        wall_ns=1_000_000 if is_done else None,
        counters=stage.program.resources if is_done else None,
    )


def _usage(job: Job, lease: Lease, program: Program, rating: Rating) -> Any:
    from apps.ledger.usage import Usage

    model = program.model_version.model
    return Usage(
        organisation_id=job.organisation_id,
        contract_id=job.contract_id,
        lease_id=lease.pk,
        idempotency_key=f"lease:{lease.pk}",
        operations=rating.counted_operations,
        cycles=program.interval_cycles * lease.count,
        program_digest=program.digest,
        project_id=model.project_id,
        model_name=model.name,
        rating=rating,
        occurred_from=lease.device_from,
        occurred_to=lease.device_to,
    )


def opened(whole: Volume, now: datetime) -> Filling:
    """The market, the people, the programs, and what a customer has besides contracts."""
    from django.core.files.base import ContentFile
    from django.core.files.storage import default_storage

    from apps.registry.models import Project
    from tests.cast import assemble
    from tests.dispatch.scene import resources_of
    from tests.sales.market import START, open_market

    cast, market = assemble(), open_market(devices=20)
    filling = Filling(cast, market, now, whole)
    projects = [
        Project.objects.create(organisation=cast.organisation, name=f"Project {number}", created_at=START)
        for number in range(PROJECTS)
    ]
    for number in range(PROGRAMS):
        program = market.program(cast.organisation, cast.engineer, name=f"model-{number}", interval=90_000 + number)
        program.inputs = [{"name": "x", "dtype": "float32", "shape": [1, 4]}]
        program.outputs = [{"name": "y", "dtype": "float32", "shape": [1, 2]}]
        program.resources = resources_of(program)
        program.save(update_fields=["inputs", "outputs", "resources"])
        model = program.model_version.model
        model.project = projects[number % PROJECTS]
        model.save(update_fields=["project"])
        filling.programs.append(program)
    for name in ("inputs.npz", "outputs.npz"):
        default_storage.save(name, ContentFile(b"PK\x05\x06" + bytes(18)))
    return filling


def invoice(filling: Filling) -> int:
    """The invoices of the months that are over, as they were issued on the first of each; how many."""
    from apps.invoicing.services import invoices_issue_month
    from apps.ledger.selectors import month_of

    months, start = [], month_of(filling.now)[0]
    while start > filling.now - PAST:
        months.append(start)
        start = month_of(start - timedelta(days=1))[0]
    return sum(invoices_issue_month(now=month + timedelta(hours=1)) for month in reversed(months))


def reconciliations(filling: Filling) -> None:
    """A run as the clock makes one, without its comparison, which is measured apart: a row for every customer."""
    from apps.accounts.models import Organisation
    from apps.reports.models import ReconciliationRow, ReconciliationRun

    run = ReconciliationRun.objects.create(started_at=filling.now)
    for one in Organisation.objects.all():
        ReconciliationRow.objects.create(run=run, organisation=one, stages=[], compared_at=filling.now)
    run.organisations, run.finished_at = run.rows.count(), filling.now
    run.save(update_fields=["organisations", "finished_at"])


def spend_caps(filling: Filling) -> None:
    """A cap and a budget for the organisation and for every project."""
    from apps.invoicing.services import cap_change
    from apps.notifications.budgets.services import budget_create
    from apps.registry.models import Project

    scopes: list[dict[str, Any]] = [{}]
    scopes += [{"project_id": one.pk} for one in Project.objects.filter(organisation=filling.cast.organisation)]
    for scope in scopes:
        cap_change(
            organisation=filling.cast.organisation,
            amount=Decimal(10**6),
            currency="EUR",
            actor=filling.cast.owner,
            now=filling.now,
            **scope,
        )
        budget_create(
            organisation=filling.cast.organisation,
            amount=Decimal(10**4),
            currency="EUR",
            actor=filling.cast.owner,
            now=filling.now,
            **scope,
        )
