"""Read access to jobs and their contracts."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.dispatch import contracts
from apps.dispatch.models import LIVE, Job, JobState, Lease, LeaseState
from apps.registry.feeds import TensorType
from apps.sales.models import Contract, ContractLine, FormName
from apps.sales.selectors import contracts_open

BLOCKS_SHOWN = 50
OFFERS_SHOWN = 20


def jobs_of(organisation: Organisation, *, state: str = "", contract: str = "") -> QuerySet[Job]:
    """Return the organisation's jobs, newest first."""
    rows = Job.objects.filter(organisation=organisation)
    if state in JobState.values:
        rows = rows.filter(state=state)
    if contract:
        rows = rows.filter(contract_id=contract)
    return rows.select_related("contract__pool", "submitted_by").order_by("-submitted_at", "-id")


def jobs_shown(organisation: Organisation, *, state: str = "", contract: str = "") -> QuerySet[Job]:
    """Return the jobs with their models, block counts and start times. Only the rows of the requested page are
    computed.
    """
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
    return Coalesce(Subquery(leases.values("stage__job").annotate(n=Count("pk")).values("n")), 0)


class Offer(NamedTuple):
    """A contract under which jobs can be submitted, with its programs, the programs' inputs, and the number of
    executions left.
    """

    contract: Contract
    lines: list[contracts.Line]
    inputs: list[tuple[str, list[TensorType], int]]
    combined: str = ""  # how several programs answer together, in words
    wanted: UUID | None = None

    @property
    def left(self) -> int:
        """The largest number of items that can still be submitted for any of the programs."""
        return max((left for _, _, left in self.inputs), default=0)

    @property
    def key(self) -> str:
        """The contract's id. For a quota, the program's id follows."""
        return f"{self.contract.pk}:{self.wanted}" if self.wanted else str(self.contract.pk)

    @property
    def choice(self) -> str:
        return f"{self.contract.title}: {self.title} on {self.contract.pool.slug}, {self.left:,} left"

    @property
    def title(self) -> str:
        """The names of the models, separated by commas."""
        return ", ".join(dict.fromkeys(line.program.model_version.model.name for line in self.lines))


def offer_of(contract: Contract, wanted: UUID | None = None) -> Offer:
    """Return the offer of a contract. The offer covers all programs, or only the program `wanted`.

    Raises Problem(422) if the contract has no such program.
    """
    lines = [line for line in contracts.lines_of(contract) if wanted in (None, line.program.pk)]
    if not lines:
        raise Problem(422, "No such program", "The contract does not include this program.", kind="not-in-contract")
    plan = contracts.combination_of(contract)
    if plan is None:
        inputs = [(f"{line.program}", contracts.inputs_of(line.program), line.left) for line in lines]
        return Offer(contract, lines, inputs, wanted=wanted)
    first, left = plan.programs[0], min(line.left for line in lines if line.program in plan.from_the_start)
    return Offer(contract, lines, [(f"{first}", contracts.inputs_of(first), left)], _combined(plan), wanted)


def _combined(plan: contracts.Combination) -> str:
    if plan.is_ensemble:
        return (
            "Every item runs on all three models. If two models agree, their answer is used. Otherwise, the answer of "
            "the first model is used."
        )
    return (
        "Every item runs on the first model. If a model's confidence in its answer is too low, the item runs on the next "
        "model."
    )


def contracts_left(organisation: Organisation, *, now: datetime) -> QuerySet[Contract]:
    """Return the open contracts with executions left, newest first."""
    lines = ContractLine.objects.filter(contract=OuterRef("pk"), taken__lt=F("executions"))
    return contracts_open(organisation, now=now).filter(Q(form=FormName.QUOTA) | Exists(lines))


def offers_open(organisation: Organisation, *, now: datetime, wanted: str = "") -> list[Offer]:
    """Return the offers of the newest open contracts with executions left. An older contract `wanted` is included if it
    is open and has executions left.
    """
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


def lease_device_time(lease: Lease) -> Fraction:
    """Return the device time of a lease in seconds: the number of executions times the interval. On a host pool, return
    the measured wall-clock time.
    """
    if lease.device.pool.is_host:
        return Fraction((lease.device_to - lease.device_from) // timedelta(microseconds=1), 10**6)
    return Fraction(lease.next_cycle - lease.first_cycle, lease.stage.clock_hz)


def queue_depths() -> dict[str, dict[str, int]]:
    """Return the number of planned, offered and running leases, by pool and state."""
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
