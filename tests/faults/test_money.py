"""Processes die at every place that money passes; what was executed is billed and paid once, and nothing is missing."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from apps.accounts.failpoints import POINTS
from apps.config.celery import app
from apps.dispatch import services
from apps.dispatch.execution import lease_execute
from apps.dispatch.models import Lease, LeaseState
from apps.dispatch.services.leases import SILENT_AFTER
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.faults.crews import Crewed
from tests.faults.mortal import killed_at
from tests.faults.works import Works, collector, dear, differences
from tests.sales.market import open_market
from tests.tiers import part
from tests.workers import Crew

ROOT = Path(__file__).resolve().parents[2]
DEATHS_IN_A_ROW = 3  # a block that five workers in turn fell silent over is given up, with its job
# Of all, one inside a transaction of ours and one on the way back from Stripe: a worker takes seconds.
WORKERS_DIE_AT = ("ledger.entries", "webhook.handled")


@pytest.fixture
def works(transactional_db: None, cast: Cast) -> Iterator[Works]:
    """A market, a customer, and somebody who collects."""
    with collector() as (store, _):
        yield Works.opened(Scene(open_market(devices=2, change=dear), cast, timezone.now()), store)
    with app.connection_for_write() as broker, broker.channel() as channel:
        channel.client.flushdb()  # nobody took the messages


@pytest.mark.django_db(transaction=True)
def test_processes_that_die_everywhere_lose_nothing_and_charge_nothing_twice(works: Works, tmp_path: Path) -> None:
    """Several deaths in a row, each amid what the one before left behind; for every change at a quarter of the places.
    `benchmarks.faults` looks after each."""
    for number, point in enumerate(part(POINTS), 1):
        works.begin()
        assert killed_at(point, works.forward, marker=tmp_path / point), f"nothing passes {point}"
        works.scene.pass_time(seconds=SILENT_AFTER.total_seconds() + 1)
        if number % DEATHS_IN_A_ROW == 0:
            works.forward()
    works.recover()
    assert differences(works) == []


@pytest.mark.thorough
@pytest.mark.django_db(transaction=True)
def test_a_worker_that_dies_loses_nothing_and_charges_nothing_twice(
    transactional_db: None, cast: Cast, celery_worker: Crew, tmp_path: Path
) -> None:
    with collector() as (store, named):
        past = timezone.now() - timedelta(minutes=30)
        works = Works.opened(Scene(open_market(devices=2, change=dear), cast, past), store)
        crewed = Crewed(works, celery_worker, named)
        for point in WORKERS_DIE_AT:
            assert crewed.survive(point, tmp_path / point) == []


@pytest.mark.django_db(transaction=True)
def test_a_clock_that_jumps_amid_a_lease_changes_no_price(works: Works) -> None:
    for jump in (timedelta(days=-400), timedelta(hours=-1), timedelta(hours=1)):
        works.begin()
        readings = iter([works.scene.now])

        def jumping(readings: Iterator[datetime] = readings, jump: timedelta = jump) -> datetime:
            return next(readings, works.scene.now + jump)

        services.leases_offer_due(now=works.scene.now)
        for lease in Lease.objects.filter(state=LeaseState.OFFERED).order_by("device_from"):
            lease_execute(lease_id=lease.pk, epoch=lease.epoch, host="here", clock=jumping)
        works.scene.pass_time(seconds=3600)
    works.recover()
    assert differences(works) == []


def test_every_fail_point_stands_in_the_code_exactly_once() -> None:
    found: Counter[str] = Counter()
    for path in (ROOT / "apps").rglob("*.py"):
        text = path.read_text()
        if "failpoint(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "failpoint":
                found[ast.literal_eval(node.args[0])] += 1
    assert found == Counter(POINTS)
    assert len(POINTS) == 21
