"""Runs a lease on a worker. The worker process keeps no state between leases."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from typing import Self
from uuid import UUID

import numpy as np
import structlog
from django.core.files.storage import default_storage
from django.db import DatabaseError, connection

from apps.accounts.failpoints import failpoint
from apps.accounts.files import file_save
from apps.accounts.outages import Unavailable, told_when_back, unavailable_of
from apps.accounts.problems import Problem
from apps.dispatch import services
from apps.dispatch.contracts import inputs_of
from apps.dispatch.models import JobStage, Lease
from apps.dispatch.runners import host as host_runner
from apps.dispatch.runners import simulator
from apps.dispatch.runners.block import Feeds, Outcome, Progress, feeds_of
from apps.dispatch.services.leases import CountersDiffer, LeaseLost
from apps.registry.feeds import arrays_pack, arrays_unpack, seeded_items
from compiler.errors import ModelError

RENEW_SECONDS = 3.0

log = structlog.get_logger("dispatch")
Clock = Callable[[], datetime]


def lease_execute(*, lease_id: UUID, epoch: int, host: str, clock: Clock) -> bool:
    """Run one lease, from claim to billing. Returns False if this worker did not complete the lease.

    An error that would recur in a retry fails the job. If the storage is unavailable or full, the lease is offered
    again. Other errors are raised.
    """
    try:
        services.lease_take(lease_id=lease_id, epoch=epoch, host=host, now=clock())
    except LeaseLost as lost:
        log.info("lease not taken", reason=str(lost))
        return False
    failpoint("lease.taken")
    lease = Lease.objects.select_related("stage__program__model_version", "stage__job", "device__pool").get(pk=lease_id)
    try:
        with Heartbeat(lease_id, epoch, clock) as heart:
            outcome = _run(lease, heart.progress, clock)
            failpoint("lease.executed")
            key = _outputs_store(lease, epoch, outcome)
            failpoint("lease.outputs_stored")
        services.lease_complete(
            lease_id=lease_id,
            epoch=epoch,
            outputs_key=key,
            counters=outcome.counters,
            wall_ns=outcome.wall_ns,
            measured=outcome.measured,
            now=clock(),
        )
    except LeaseLost as lost:
        log.warning("lease lost", reason=str(lost))
        return False
    except (Unavailable, OSError, DatabaseError) as error:
        return _interrupted(lease_id, epoch, error, clock)
    except (ModelError, CountersDiffer, simulator.WrongBinary, Problem, ValueError, KeyError) as error:
        services.lease_fail(
            lease_id=lease_id, epoch=epoch, reason=_sentence(error), now=clock(), is_ours=_is_ours(error)
        )
        return False
    return True


def _interrupted(lease_id: UUID, epoch: int, error: Exception, clock: Clock) -> bool:
    # A missing file fails the job. After an outage, the lease is returned.
    if isinstance(error, FileNotFoundError):
        reason, is_ours = _missing(lease_id, error)
        services.lease_fail(lease_id=lease_id, epoch=epoch, reason=reason, now=clock(), is_ours=is_ours)
        return False
    outage = unavailable_of(error)
    if outage is None:
        raise error
    reason = outage.detail
    told_when_back(lambda: services.lease_return(lease_id=lease_id, epoch=epoch, reason=reason, now=clock()))
    return False


def _missing(lease_id: UUID, error: FileNotFoundError) -> tuple[str, bool]:
    lease = Lease.objects.select_related("stage__program__model_version", "device__pool").get(pk=lease_id)
    version = lease.stage.program.model_version
    if lease.device.pool.is_host and version.deleted_at is not None:  # other pools run the binary
        return f"The file of {version} was deleted, so the job cannot run. Upload the model again.", False
    log.error("file missing", lease=str(lease_id), error=str(error))
    return "A file of this job is no longer in our storage, so the job cannot run. This is our fault, not yours.", True


def _run(lease: Lease, progress: Progress, clock: Clock) -> Outcome:
    feeds = _feeds(lease, _items(lease.stage)[lease.from_item : lease.from_item + lease.count])
    program = lease.stage.program
    if lease.device.pool.is_host:
        return host_runner.run(program, feeds, progress, clock)
    return simulator.run(program, feeds, progress)


def _feeds(lease: Lease, items: np.ndarray) -> list[Feeds]:
    seed = lease.stage.job.seed
    if seed is None:
        return feeds_of(_typed(lease, _inputs(lease)), items)
    generated = seeded_items(inputs_of(lease.stage.program), items, seed=seed)
    return feeds_of(generated, np.arange(len(items)))


def _typed(lease: Lease, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    # Files hold small types widened; the program takes its own.
    wanted = {one.name: np.dtype(one.dtype) for one in inputs_of(lease.stage.program)}
    return {name: array.astype(wanted.get(name, array.dtype), copy=False) for name, array in arrays.items()}


def _inputs(lease: Lease) -> dict[str, np.ndarray]:
    with default_storage.open(lease.stage.job.inputs_key) as file:
        return arrays_unpack(file.read())


def _items(stage: JobStage) -> np.ndarray:
    if not stage.selection_key:
        return np.arange(stage.count)
    with default_storage.open(stage.selection_key) as file:
        return arrays_unpack(file.read())["items"]


def _outputs_store(lease: Lease, epoch: int, outcome: Outcome) -> str:
    # The name contains the epoch, so a replaced worker cannot overwrite newer outputs.
    name = f"jobs/{lease.stage.job_id}/leases/{lease.pk}-{epoch}.npz"
    return file_save(name, arrays_pack(outcome.outputs))


def _is_ours(error: Exception) -> bool:
    # If a program cannot run on its inputs, the platform is not at fault.
    return isinstance(error, (CountersDiffer, simulator.WrongBinary, Problem))


def _sentence(error: Exception) -> str:
    if isinstance(error, Problem):
        return error.detail
    if isinstance(error, ModelError):
        return error.told()
    if isinstance(error, (CountersDiffer, simulator.WrongBinary)):
        return str(error)
    return f"The program cannot run on these inputs ({type(error).__name__}: {error})."


class Heartbeat:
    """Renews a lease from a thread while the block runs, and stops the runner if the lease is lost."""

    def __init__(self, lease_id: UUID, epoch: int, clock: Clock) -> None:
        self.lease_id, self.epoch, self.clock = lease_id, epoch, clock
        self.done = 0
        self._over, self._lost, self._renewed = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"lease-{lease_id}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        self._thread.join()

    def wait_lost(self, seconds: float) -> bool:
        """Wait until the lease is lost. Returns False after `seconds`."""
        return self._lost.wait(seconds)

    def wait_renewed(self, seconds: float) -> bool:
        """Wait for the next renewal. Returns False after `seconds`."""
        self._renewed.clear()
        return self._renewed.wait(seconds)

    def progress(self, done: int) -> None:
        """Record the number of finished items. Raises LeaseLost if the lease is lost."""
        self.done = done
        if self._lost.is_set():
            raise LeaseLost(f"lease {self.lease_id} went to another worker, or its job has ended")

    def _beat(self) -> None:
        try:
            while not self._over.wait(RENEW_SECONDS):
                try:
                    services.lease_renew(lease_id=self.lease_id, epoch=self.epoch, progress=self.done, now=self.clock())
                    self._renewed.set()
                except LeaseLost:
                    self._lost.set()
                    return
                except DatabaseError as error:
                    log.warning("no heartbeat", lease=str(self.lease_id), error=str(error))
                    connection.close()
        finally:
            connection.close()
