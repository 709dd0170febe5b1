"""Workers of a pool are killed, join from elsewhere and come back late; a job is finished once and billed once."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from apps.dispatch import services
from apps.dispatch.models import Job, JobState, Lease, LeaseState
from apps.dispatch.services.leases import SILENT_AFTER
from apps.ledger.models import UsageRow
from apps.pricing.rating import exact_sum
from apps.registry.feeds import arrays_unpack
from tests.dispatch.real import meant, real_program
from tests.dispatch.scene import Scene
from tests.faults.hosts import Fleet, wait_until
from tests.workers import Crew

WIDTH = 6000
ITEMS = 1024


def submit(scene: Scene) -> Job:
    """A job of four blocks, each of which takes a noticeable time to simulate, and its messages on the queue."""
    contract = scene.contract((real_program(scene, width=WIDTH), ITEMS))
    job = scene.job(contract, ITEMS, shape=(1, WIDTH))
    services.leases_offer_due(now=timezone.now() + timedelta(seconds=1))
    return job


def is_finished(job: Job) -> bool:
    job.refresh_from_db()
    return job.is_final


def running(job: Job) -> list[Lease]:
    return list(Lease.objects.filter(stage__job=job, state=LeaseState.RUNNING))


def freeze_amid_a_lease(job: Job, process_id: int) -> list[Lease]:
    """Stops the process group at a moment at which it runs a lease and holds no lock."""
    while True:
        wait_until(lambda: bool(running(job)), seconds=60, otherwise="no lease was ever taken")
        os.killpg(process_id, signal.SIGSTOP)
        held = running(job)
        if held and is_free(job):
            return held
        os.killpg(process_id, signal.SIGCONT)


def is_free(job: Job) -> bool:
    """Nobody is changing the job or its leases at this moment."""
    with transaction.atomic():
        leases = Lease.objects.select_for_update(skip_locked=True).filter(stage__job=job)
        free = Job.objects.select_for_update(skip_locked=True).filter(pk=job.pk).exists()
        return free and len(leases) == Lease.objects.filter(stage__job=job).count()


def check_finished_and_billed_once(scene: Scene, job: Job) -> None:
    assert job.state == JobState.DONE, job.problem
    with default_storage.open(job.outputs_key) as file:
        found = arrays_unpack(file.read())["y"]
    with default_storage.open(job.inputs_key) as file:
        x = arrays_unpack(file.read())["x"]
    assert np.abs(found - meant(x)).max() < 1e-6
    leases = Lease.objects.filter(stage__job=job, state=LeaseState.DONE)
    assert sorted(UsageRow.objects.values_list("lease_id", flat=True)) == sorted(lease.pk for lease in leases)
    assert UsageRow.objects.aggregate(q=Sum("quantity"))["q"] == ITEMS
    assert exact_sum(UsageRow.objects.values_list("amount", flat=True)) == job.contract.net


def test_a_job_whose_worker_is_killed_is_finished_after_a_restart_once_and_billed_once(
    present: Scene, fleet: Fleet, celery_worker: Crew
) -> None:
    celery_worker.start("default", "dispatch")
    first = fleet.start("first", pool="lpu-a")
    job = submit(present)
    held = freeze_amid_a_lease(job, first.pid)
    fleet.kill(first)
    assert services.leases_reoffer_silent(now=timezone.now() + SILENT_AFTER + timedelta(seconds=1)) == len(held)
    fleet.start("second", pool="lpu-a")
    wait_until(lambda: is_finished(job), seconds=90, otherwise="the job was not finished after the restart")
    check_finished_and_billed_once(present, job)
    for lease in held:
        lease.refresh_from_db()
        assert (lease.epoch, lease.host) == (2, "second")
        with pytest.raises(services.LeaseLost):
            present.finish(lease, epoch=1)


@pytest.mark.thorough
def test_a_worker_that_was_thought_dead_and_comes_back_changes_nothing(
    present: Scene, fleet: Fleet, celery_worker: Crew
) -> None:
    celery_worker.start("default", "dispatch")
    frozen = fleet.start("frozen", pool="lpu-a")
    job = submit(present)
    held = freeze_amid_a_lease(job, frozen.pid)
    services.leases_reoffer_silent(now=timezone.now() + SILENT_AFTER + timedelta(seconds=1))
    fleet.start("other", pool="lpu-a")
    wait_until(
        lambda: Lease.objects.filter(pk=held[0].pk, state=LeaseState.DONE).exists(),
        seconds=90,
        otherwise="nobody took the lease over",
    )
    os.killpg(frozen.pid, signal.SIGCONT)
    wait_until(lambda: is_finished(job), seconds=90, otherwise="the job was not finished")
    check_finished_and_billed_once(present, job)
    held[0].refresh_from_db()
    assert (held[0].epoch, held[0].host) == (2, "other")


@pytest.mark.thorough
def test_hosts_in_folders_and_networks_of_their_own_share_the_leases_of_a_pool(
    present: Scene, fleet: Fleet, celery_worker: Crew, tmp_path: Path
) -> None:
    celery_worker.start("default", "dispatch")
    fleet.start("near", pool="lpu-a")
    fleet.start("far", pool="lpu-a")
    job = submit(present)
    wait_until(lambda: is_finished(job), seconds=90, otherwise="the job was not finished")
    check_finished_and_billed_once(present, job)
    assert set(Lease.objects.filter(stage__job=job).values_list("host", flat=True)) == {"near", "far"}
    assert list((tmp_path / "far").iterdir()) == []
