"""A contract and the means to run jobs under it, with a program whose counts the test chooses."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from apps.compilation.models import Program
from apps.dispatch import services
from apps.dispatch.models import Job, Lease, LeaseState
from apps.fleet.models import Pool
from apps.registry.feeds import arrays_pack
from apps.sales.models import Contract
from apps.sales.services import QuoteLine, quote_accept, quote_create
from compiler.isa.resources import Io, Memory, Resources, Storage
from tests.cast import Cast
from tests.sales.market import NOW, Market


def resources_of(program: Program) -> dict[str, Any]:
    """Resources with the program's counts."""
    return Resources(
        operations=program.operations,
        executed_operations=program.executed_operations,
        storage=Storage(10, 20, 0, 5, 0, 35),
        io=Io(16, 8, 0, 0),
        memory=Memory(100, 50),
        cycles=program.latency_cycles,
        interval=program.interval_cycles,
        energy_fj=12345,
        exact=program.exact,
        reason=program.reason,
    ).to_json()


@dataclass
class Scene:
    """The market with an organisation that buys and runs."""

    market: Market
    cast: Cast
    now: datetime = NOW
    programs: list[Program] = field(default_factory=list)

    def program(self, *, shape: tuple[int, ...] = (1, 4), outputs: tuple[int, ...] = (1, 2), **counts: Any) -> Program:
        """A program from 'x' to 'y' with these counts."""
        program = self.market.program(self.cast.organisation, self.cast.engineer, **counts)
        program.inputs = [{"name": "x", "dtype": "float32", "shape": list(shape)}]
        program.outputs = [{"name": "y", "dtype": "float32", "shape": list(outputs)}]
        program.resources = resources_of(program)
        program.save(update_fields=["inputs", "outputs", "resources"])
        return program

    def contract(
        self,
        *lines: tuple[Program, int],
        klass: str = "standard",
        pool: Pool | None = None,
        window: timedelta = timedelta(hours=2),
        plan_id: UUID | None = None,
    ) -> Contract:
        """A quote made and accepted at the scene's present."""
        quote = quote_create(
            organisation=self.cast.organisation,
            lines=[QuoteLine(*line) for line in lines],
            klass=klass,
            pool=pool or self.market.lpu,
            window=(self.now, self.now + window),
            plan_id=plan_id,
            actor=self.cast.engineer,
            now=self.now,
        )
        return quote_accept(
            quote_id=quote.pk, organisation=self.cast.organisation, actor=self.cast.engineer, now=self.now
        )

    def job(self, contract: Contract, items: int = 10, *, shape: tuple[int, ...] = (1, 4)) -> Job:
        """A job of that many seeded items."""
        arrays = {"x": np.random.default_rng(1).random((items, *shape)).astype("float32")}
        return services.job_create(contract=contract, arrays=arrays, actor=self.cast.engineer, now=self.now)

    def pass_time(self, **step: float) -> None:
        """Let the clock run."""
        self.now += timedelta(**step)

    def take(self, lease: Lease) -> Lease:
        """Waits for the lease's device time and takes it as a worker does."""
        self.now = max(self.now, lease.device_from)
        services.leases_offer_due(now=self.now)
        lease.refresh_from_db()
        return services.lease_take(lease_id=lease.pk, epoch=lease.epoch, host="near", now=self.now)

    def finish(
        self, lease: Lease, *, epoch: int | None = None, outputs: np.ndarray | None = None, **changed: Any
    ) -> Lease:
        """Completes a lease with the program's own counts (or `changed` ones), as a worker does."""
        program = lease.stage.program
        if outputs is None:
            outputs = np.zeros((lease.count, *program.outputs[0]["shape"]), "float32")
        key = default_storage.save(f"test/{lease.pk}.npz", ContentFile(arrays_pack({"y": outputs})))
        return services.lease_complete(
            lease_id=lease.pk,
            epoch=lease.epoch if epoch is None else epoch,
            outputs_key=key,
            counters={**program.resources, **changed},
            wall_ns=1_000,
            now=self.now,
        )

    def run(self, job: Job, **outputs: Any) -> Job:
        """Takes and finishes every live lease of the job, then moves the job on."""
        for lease in Lease.objects.filter(stage__job=job, state__in=[LeaseState.PLANNED, LeaseState.OFFERED]):
            self.finish(self.take(lease), **outputs)
        services.job_advance(job_id=job.pk, now=self.now)
        job.refresh_from_db()
        return job
