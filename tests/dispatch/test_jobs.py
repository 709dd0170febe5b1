"""Taking, placing, cancelling and ending jobs."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from django.core.files.storage import default_storage
from django.db import IntegrityError, transaction

from apps.accounts.problems import Problem
from apps.dispatch import services
from apps.dispatch.models import Job, JobState, Lease, LeaseState
from apps.fleet.models import ProcessorVersion
from apps.ledger.models import UsageRow
from apps.registry.feeds import arrays_unpack
from apps.sales.models import ContractLine
from apps.timetable.models import Refusal, Window
from tests.dispatch.scene import Scene


def test_a_job_takes_volume_and_lays_its_leases_inside_the_contracts_windows(scene: Scene) -> None:
    program = scene.program(operations=40_000_000, interval=90_000, latency=120_000)
    contract = scene.contract((program, 100))
    job = scene.job(contract, 25)
    leases = list(Lease.objects.filter(stage__job=job))
    assert [(lease.from_item, lease.count) for lease in leases] == [(0, 9), (9, 8), (17, 8)]
    for lease in leases:
        assert lease.window.reservation_id == contract.reservation_id
        assert lease.window.start <= lease.device_from < lease.device_to <= lease.window.end
    for one, two in pairwise(leases):
        assert two.first_cycle == one.next_cycle == one.first_cycle + one.count * 90_000
    assert ContractLine.objects.get().taken == 25
    assert job.state == JobState.QUEUED


def test_a_second_job_of_the_contract_goes_on_behind_the_first(scene: Scene) -> None:
    program = scene.program()
    contract = scene.contract((program, 100))
    first, second = scene.job(contract, 10), scene.job(contract, 10)
    last = Lease.objects.filter(stage__job=first).latest("next_cycle")
    assert Lease.objects.filter(stage__job=second).earliest("first_cycle").first_cycle == last.next_cycle
    assert Window.objects.count() == 1


def test_a_cycle_of_a_window_is_leased_once_whoever_asks(scene: Scene) -> None:
    contract = scene.contract((scene.program(), 100))
    lease = Lease.objects.filter(stage__job=scene.job(contract, 1)).get()
    lease.pk, lease.from_item = None, 500
    with pytest.raises(IntegrityError, match="lease_cycle_once"), transaction.atomic():
        lease.save(force_insert=True)


def test_more_items_than_the_contract_has_left_are_refused_and_leave_nothing(scene: Scene) -> None:
    contract = scene.contract((scene.program(), 100))
    scene.job(contract, 60)
    files = set(default_storage.listdir("jobs")[0])
    with pytest.raises(Problem, match="40 of 100"):
        scene.job(contract, 41)
    assert Job.objects.count() == 1
    kept = {name for name in default_storage.listdir("jobs")[0] if default_storage.listdir(f"jobs/{name}")[1]}
    assert kept == files


def test_inputs_that_do_not_fit_are_refused_with_what_is_needed(scene: Scene) -> None:
    contract = scene.contract((scene.program(), 100))
    with pytest.raises(Problem, match=r"needs the shape \[items, 1, 4\]; yours is \[3, 7\]"):
        services.job_create(contract=contract, arrays={"x": np.ones((3, 7))}, actor=None, now=scene.now)


def test_the_bucket_whose_shape_the_inputs_have_runs_the_job(scene: Scene) -> None:
    buckets = [scene.program(shape=(1, size)) for size in (16, 64, 128)]
    contract = scene.contract(*((program, 50) for program in buckets))
    job = scene.job(contract, 5, shape=(1, 64))
    assert job.stages.get().program == buckets[1]
    with pytest.raises(Problem, match=r"1 × 16.*1 × 64.*1 × 128"):
        scene.job(contract, 5, shape=(1, 32))


def test_work_whose_windows_have_passed_is_placed_anew_by_the_same_rules(scene: Scene) -> None:
    contract = scene.contract((scene.program(), 100))
    scene.pass_time(minutes=30)
    job = scene.job(contract, 10)
    lease = Lease.objects.filter(stage__job=job).earliest("device_from")
    assert lease.device_from == scene.now
    assert lease.window.reservation_id == contract.reservation_id
    assert Window.objects.count() == 2


def test_work_that_fits_in_no_single_window_any_more_is_split(scene: Scene) -> None:
    slow = scene.program(interval=900_000_000, latency=900_000_000)
    contract = scene.contract((slow, 1000), window=timedelta(hours=1))
    for executions in (2900, 2000):
        scene.contract((slow, executions), window=timedelta(hours=1))
    scene.pass_time(minutes=20)
    job = scene.job(contract, 1000)
    leases = Lease.objects.filter(stage__job=job).select_related("window")
    assert sum(lease.count for lease in leases) == 1000
    assert len({lease.window.device_id for lease in leases}) == 2
    assert all(lease.device_to <= scene.now + timedelta(minutes=40) for lease in leases)


def test_off_peak_work_waits_for_off_peak_hours_and_for_its_lease_until_then(scene: Scene) -> None:
    contract = scene.contract((scene.program(), 100), klass="off_peak", window=timedelta(days=1))
    job = scene.job(contract, 10)
    lease = Lease.objects.filter(stage__job=job).earliest("device_from")
    assert lease.device_from > scene.now + timedelta(hours=1)
    assert services.leases_offer_due(now=scene.now) == 0
    assert services.leases_offer_due(now=lease.device_from) >= 1


def test_a_job_that_finds_no_room_is_refused_and_the_refusal_is_remembered(scene: Scene) -> None:
    long = scene.program(interval=900_000_000, latency=900_000_000)
    small = scene.contract((long, 1000), window=timedelta(hours=1))
    for executions in (2600, 2600, 900):
        scene.contract((long, executions), window=timedelta(hours=1))
    scene.pass_time(minutes=20)
    with pytest.raises(Problem, match="no free window"):
        scene.job(small, 1000)
    assert Refusal.objects.get().pool == scene.market.lpu
    assert ContractLine.objects.get(contract=small).taken == 0


def test_a_processor_that_is_described_anew_takes_no_jobs_of_earlier_contracts(scene: Scene) -> None:
    contract = scene.contract((scene.program(), 100))
    scene.job(contract, 5)
    files = set(default_storage.listdir("jobs")[0])
    old = contract.pool.processor
    assert old is not None
    contract.pool.processor = ProcessorVersion.objects.create(
        name=old.name, digest="d" * 64, clock_hz=old.clock_hz, memory_bytes=old.memory_bytes, created_at=scene.now
    )
    contract.pool.save()
    with pytest.raises(
        Problem, match=r"now uses a newer description \(dddddddddddd\).*again and accept a new quote"
    ) as refusal:
        scene.job(contract, 5)
    assert (refusal.value.status, refusal.value.kind) == (409, "processor-described-anew")
    assert ContractLine.objects.get().taken == 5
    assert Job.objects.count() == 1
    assert set(default_storage.listdir("jobs")[0]) == files


def test_an_ended_contract_takes_no_jobs(scene: Scene) -> None:
    contract = scene.contract((scene.program(), 100), window=timedelta(minutes=5))
    scene.pass_time(minutes=5)
    with pytest.raises(Problem, match="has ended"):
        scene.job(contract, 1)


def test_a_finished_job_has_its_outputs_in_the_order_of_its_items(scene: Scene) -> None:
    program = scene.program(operations=200_000_000)
    job = scene.job(scene.contract((program, 100)), 5)
    for lease in Lease.objects.filter(stage__job=job).order_by("-from_item"):
        outputs = np.arange(lease.from_item, lease.from_item + lease.count, dtype="float32")
        scene.finish(scene.take(lease), outputs=np.broadcast_to(outputs[:, None, None], (lease.count, 1, 2)))
    services.job_advance(job_id=job.pk, now=scene.now)
    job.refresh_from_db()
    assert (job.state, job.finished_at) == (JobState.DONE, scene.now)
    with default_storage.open(job.outputs_key) as file:
        found = arrays_unpack(file.read())
    assert list(found) == ["y"]
    assert found["y"][:, 0, 0].tolist() == [0, 1, 2, 3, 4]


def test_cancelling_keeps_and_bills_what_was_done_and_gives_back_the_rest(scene: Scene) -> None:
    job = scene.job(scene.contract((scene.program(operations=200_000_000), 100)), 6)
    first, second, _ = Lease.objects.filter(stage__job=job)
    scene.finish(scene.take(first))
    running = scene.take(second)
    job = services.job_cancel(job_id=job.pk, actor=None, now=scene.now)
    assert job.state == JobState.CANCELLED
    assert ContractLine.objects.get().taken == 2
    assert UsageRow.objects.get().quantity == 2
    with pytest.raises(services.LeaseLost):
        services.lease_renew(lease_id=running.pk, epoch=running.epoch, progress=1, now=scene.now)
    with pytest.raises(services.LeaseLost):
        scene.finish(running)
    with default_storage.open(job.outputs_key) as file:
        assert arrays_unpack(file.read())["takt_items"].tolist() == [0, 1]
    with pytest.raises(Problem, match="already cancelled"):
        services.job_cancel(job_id=job.pk, actor=None, now=scene.now)


def test_a_cancelled_jobs_cycles_are_free_for_the_contracts_next_job(scene: Scene) -> None:
    contract = scene.contract((scene.program(), 10))
    job = scene.job(contract, 10)
    services.job_cancel(job_id=job.pk, actor=None, now=scene.now)
    again = scene.job(contract, 10)
    assert Lease.objects.filter(stage__job=again).earliest("first_cycle").first_cycle == 0
    assert set(Lease.objects.filter(stage__job=job).values_list("state", flat=True)) == {LeaseState.REVOKED}
