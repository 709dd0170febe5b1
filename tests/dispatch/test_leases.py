"""The five verbs: whatever is killed, delayed or repeated, a lease is finished once and billed once (T6)."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.db.models import Sum

from apps.dispatch import services
from apps.dispatch.models import Job, JobState, Lease, LeaseState
from apps.dispatch.services.leases import EPOCHS_MAX, SILENT_AFTER, CountersDiffer
from apps.fleet.services import workerhost_seen
from apps.ledger.models import UsageRow
from apps.pricing.rating import exact_sum
from apps.sales.models import ContractLine
from tests.dispatch.scene import Scene

SILENCE = SILENT_AFTER + timedelta(seconds=1)


@pytest.fixture
def lease(scene: Scene) -> Lease:
    """The only lease of a job of ten items."""
    job = scene.job(scene.contract((scene.program(operations=1_000_000), 100)), 10)
    return Lease.objects.get(stage__job=job)


def state_of(lease: Lease) -> tuple[str, int]:
    lease.refresh_from_db()
    return lease.state, lease.epoch


def test_a_lease_is_taken_once(scene: Scene, lease: Lease) -> None:
    scene.take(lease)
    with pytest.raises(services.LeaseLost):
        services.lease_take(lease_id=lease.pk, epoch=1, host="other", now=scene.now)
    assert Job.objects.get().state == JobState.RUNNING


def test_completing_bills_the_lease_by_the_frozen_terms(scene: Scene, lease: Lease) -> None:
    scene.finish(scene.take(lease))
    row = UsageRow.objects.get()
    assert (row.lease_id, row.quantity, row.operations) == (lease.pk, 10, 10_000_000)
    assert (row.occurred_from, row.occurred_to) == (lease.device_from, lease.device_to)
    assert row.program_digest == lease.stage.program.digest
    assert state_of(lease) == (LeaseState.DONE, 1)


def test_a_second_completion_is_refused_and_bills_nothing(scene: Scene, lease: Lease) -> None:
    taken = scene.take(lease)
    scene.finish(taken)
    with pytest.raises(services.LeaseLost):
        scene.finish(taken)
    assert UsageRow.objects.count() == 1


def test_a_worker_that_lives_keeps_its_lease(scene: Scene, lease: Lease) -> None:
    scene.take(lease)
    for progress in range(10):
        scene.pass_time(seconds=5)
        services.lease_renew(lease_id=lease.pk, epoch=1, progress=progress, now=scene.now)
        assert services.leases_reoffer_silent(now=scene.now) == 0
    assert state_of(lease) == (LeaseState.RUNNING, 1)
    assert lease.progress == 9


def test_a_silent_workers_lease_is_offered_anew_and_its_late_completion_is_refused(scene: Scene, lease: Lease) -> None:
    late = scene.take(lease)
    scene.now += SILENCE
    assert services.leases_reoffer_silent(now=scene.now) == 1
    assert state_of(lease) == (LeaseState.OFFERED, 2)
    with pytest.raises(services.LeaseLost):
        services.lease_renew(lease_id=lease.pk, epoch=1, progress=3, now=scene.now)
    with pytest.raises(services.LeaseLost):
        scene.finish(late, epoch=1)
    with pytest.raises(services.LeaseLost):
        services.lease_take(lease_id=lease.pk, epoch=1, host="redelivered", now=scene.now)
    scene.finish(services.lease_take(lease_id=lease.pk, epoch=2, host="far", now=scene.now))
    with pytest.raises(services.LeaseLost):
        scene.finish(late, epoch=1)
    assert UsageRow.objects.aggregate(q=Sum("quantity"))["q"] == 10
    assert UsageRow.objects.count() == 1


def test_a_delay_does_not_move_the_device_time_that_is_billed(scene: Scene, lease: Lease) -> None:
    scene.take(lease)
    scene.pass_time(hours=1)
    services.leases_reoffer_silent(now=scene.now)
    scene.finish(services.lease_take(lease_id=lease.pk, epoch=2, host="far", now=scene.now))
    assert UsageRow.objects.get().occurred_from == lease.device_from


def test_a_lease_that_kills_every_worker_fails_its_job(scene: Scene, lease: Lease) -> None:
    for epoch in range(1, EPOCHS_MAX + 1):
        services.lease_take(lease_id=lease.pk, epoch=epoch, host="near", now=scene.now) if epoch > 1 else scene.take(
            lease
        )
        scene.now += SILENCE
        services.leases_reoffer_silent(now=scene.now)
    job = Job.objects.get()
    assert job.state == JobState.FAILED
    assert "stopped responding" in job.problem
    assert ContractLine.objects.get().taken == 0
    assert UsageRow.objects.count() == 0


def host_seen(scene: Scene, now: datetime) -> None:
    workerhost_seen(name="near", pool_slug=scene.market.lpu.slug, concurrency=1, is_start=False, now=now)


def test_an_offer_whose_message_was_lost_is_made_again(scene: Scene, lease: Lease) -> None:
    services.leases_offer_due(now=scene.now)
    soon, later = scene.now + timedelta(seconds=5), scene.now + timedelta(seconds=90)
    host_seen(scene, soon)
    assert services.leases_offer_due(now=soon) == 0
    assert services.leases_offer_due(now=later) == 0  # nobody is there to have lost it
    host_seen(scene, later)
    assert services.leases_offer_due(now=later) == 1
    assert state_of(lease) == (LeaseState.OFFERED, 1)


def test_an_offer_in_the_queue_of_a_busy_pool_is_not_made_twice(scene: Scene) -> None:
    first, second = Lease.objects.filter(
        stage__job=scene.job(scene.contract((scene.program(operations=400_000_000), 10)), 2)
    )
    scene.take(second)
    scene.pass_time(seconds=90)
    services.lease_take(lease_id=first.pk, epoch=1, host="near", now=scene.now)
    small = scene.contract((scene.program(operations=1_000_000), 10))
    third = Lease.objects.get(stage__job=scene.job(small, 2))
    services.leases_offer_due(now=third.device_from)
    Lease.objects.filter(pk=third.pk).update(offered_at=scene.now - timedelta(seconds=60))
    host_seen(scene, scene.now)
    assert services.leases_offer_due(now=scene.now) == 0
    # What was sent minutes later has been taken: queues keep their order, so the message is lost.
    Lease.objects.filter(pk=third.pk).update(offered_at=scene.now - timedelta(minutes=5))
    assert services.leases_offer_due(now=scene.now) == 1


@pytest.mark.parametrize(
    ("field", "value"), [("operations", 1_000_001), ("cycles", 119_999), ("interval", 1), ("energy_fj", 0)]
)
def test_counters_that_differ_are_refused_and_bill_nothing(scene: Scene, lease: Lease, field: str, value: int) -> None:
    taken = scene.take(lease)
    with pytest.raises(CountersDiffer, match=f"{field}: compiled .*, counted {value:}"):
        scene.finish(taken, **{field: value})
    assert UsageRow.objects.count() == 0
    assert state_of(lease) == (LeaseState.RUNNING, 1)


def test_counters_that_differ_deep_inside_are_refused_too(scene: Scene, lease: Lease) -> None:
    resources = lease.stage.program.resources
    with pytest.raises(CountersDiffer, match=r"memory\.read: compiled 100, counted 101"):
        scene.finish(scene.take(lease), memory={**resources["memory"], "read": 101})


def test_a_bound_may_be_undercut_and_not_exceeded(scene: Scene) -> None:
    program = scene.program(operations=1_000_000, exact=False)
    job = scene.job(scene.contract((program, 100)), 10)
    taken = scene.take(Lease.objects.get(stage__job=job))
    with pytest.raises(CountersDiffer):
        scene.finish(taken, cycles=program.latency_cycles + 1)
    scene.finish(taken, cycles=program.latency_cycles - 1)
    assert UsageRow.objects.get().operations == 10_000_000


def test_a_failed_lease_fails_its_job_loudly_and_gives_back_what_was_not_done(scene: Scene) -> None:
    job = scene.job(scene.contract((scene.program(operations=200_000_000), 100)), 6)
    first, second, third = Lease.objects.filter(stage__job=job)
    scene.finish(scene.take(first))
    scene.take(second)
    services.lease_fail(lease_id=second.pk, epoch=1, reason="cycles: compiled 5, counted 6", now=scene.now)
    job.refresh_from_db()
    assert (job.state, job.problem) == (JobState.FAILED, "cycles: compiled 5, counted 6")
    assert [state_of(one)[0] for one in (first, second, third)] == ["done", "failed", "revoked"]
    assert ContractLine.objects.get().taken == 2
    assert UsageRow.objects.get().quantity == 2


def test_a_failure_of_an_old_epoch_is_not_heard(scene: Scene, lease: Lease) -> None:
    scene.take(lease)
    scene.now += SILENCE
    services.leases_reoffer_silent(now=scene.now)
    services.lease_fail(lease_id=lease.pk, epoch=1, reason="too late", now=scene.now)
    assert Job.objects.get().state == JobState.RUNNING


def test_a_contract_used_up_costs_exactly_what_was_quoted(scene: Scene) -> None:
    contract = scene.contract((scene.program(operations=123_456_789), 97))
    for items in (50, 30, 17):
        assert scene.run(scene.job(contract, items)).state == JobState.DONE
    assert UsageRow.objects.count() > 3
    assert exact_sum(UsageRow.objects.values_list("amount", flat=True)) == contract.net
    assert UsageRow.objects.aggregate(q=Sum("quantity"))["q"] == 97


def test_the_leases_of_a_job_lie_on_the_device_without_a_gap(scene: Scene) -> None:
    program = scene.program(operations=100_000_000, interval=90_001, latency=130_007)
    job = scene.job(scene.contract((program, 100)), 20)
    cycle = 0
    for lease in Lease.objects.filter(stage__job=job).order_by("first_cycle"):
        assert lease.first_cycle == cycle
        cycle = lease.next_cycle
    assert cycle == 20 * 90_001
