"""Jobs and completions that come at once: no volume, cycle or execution is given twice."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from threading import Barrier

import pytest
from django.db import connection, transaction

from apps.accounts.problems import Problem
from apps.dispatch import services
from apps.dispatch.models import Job, Lease
from apps.dispatch.services.leases import SILENT_AFTER
from apps.ledger.models import UsageRow
from apps.sales.models import ContractLine
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import open_market

CROWD = 8


@pytest.fixture
def scene(transactional_db: None, cast: Cast) -> Scene:
    return Scene(open_market(devices=2), cast)


def at_once(act: Callable[[], object], refused: type[Exception]) -> int:
    """Lets the crowd act together, each on a connection of its own; returns how many were not refused."""
    barrier = Barrier(CROWD)

    def one(_: int) -> bool:
        try:
            connection.ensure_connection()
            barrier.wait(timeout=30)
            act()
        except refused:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(CROWD) as crowd:
        return sum(crowd.map(one, range(CROWD)))


def test_jobs_submitted_at_once_share_the_volume_and_never_a_cycle(scene: Scene) -> None:
    contract = scene.contract((scene.program(), 50))
    assert at_once(lambda: scene.job(contract, 10), Problem) == 5
    assert Job.objects.count() == 5
    assert ContractLine.objects.get().left == 0
    leases = Lease.objects.order_by("window_id", "first_cycle")
    assert all(one.window_id != two.window_id or one.next_cycle <= two.first_cycle for one, two in pairwise(leases))


def test_a_lease_that_many_complete_at_once_is_billed_once(scene: Scene) -> None:
    contract = scene.contract((scene.program(operations=1_000_000), 50))
    scene.job(contract, 10)
    taken = scene.take(Lease.objects.get())
    assert at_once(lambda: scene.finish(taken), services.LeaseLost) == 1
    assert UsageRow.objects.count() == 1


def test_a_lease_that_many_take_at_once_is_taken_once(scene: Scene) -> None:
    scene.job(scene.contract((scene.program(operations=1_000_000), 50)), 10)
    lease = Lease.objects.get()
    services.leases_offer_due(now=scene.now)

    def take() -> None:
        services.lease_take(lease_id=lease.pk, epoch=1, host="one of many", now=scene.now)

    assert at_once(take, services.LeaseLost) == 1


def test_a_worker_that_froze_within_a_transaction_does_not_stop_the_sweep(scene: Scene) -> None:
    contract = scene.contract((scene.program(operations=1_000_000), 50))
    frozen, silent = (scene.job(contract, 10), scene.job(contract, 10))
    for job in (frozen, silent):
        scene.take(Lease.objects.get(stage__job=job))
    later = scene.now + SILENT_AFTER + timedelta(seconds=1)
    with transaction.atomic(), ThreadPoolExecutor(1) as other:
        Job.objects.select_for_update().get(pk=frozen.pk)

        def sweep() -> int:
            try:
                return services.leases_reoffer_silent(now=later)
            finally:
                connection.close()

        assert other.submit(sweep).result(timeout=30) == 1
    assert Lease.objects.get(stage__job=silent).epoch == 2
    assert Lease.objects.get(stage__job=frozen).epoch == 1
    assert services.leases_reoffer_silent(now=later) == 1
