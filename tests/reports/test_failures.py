"""A failure that no spare absorbs is recorded: what it took is lost, credited to every owner once, and money sums to zero."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db.models import Sum
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.dispatch.fleet import fleet_undo
from apps.dispatch.models import JobState, Lease
from apps.fleet.models import Device, FleetChange
from apps.invoicing.models import CreditGrant
from apps.invoicing.services import guarantees_credit_due
from apps.ledger.models import Entry, OutboxRow
from apps.reports.failures import failure_record
from apps.reports.reconciling import reconciliation_request, reconciliation_run
from apps.sales.models import Contract
from apps.timetable.models import Window, WindowState
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import open_market

pytestmark = pytest.mark.django_db
SECOND = 900_000_000  # cycles


@pytest.fixture
def scene(cast: Cast) -> Scene:
    """One device, so that nothing can move."""
    return Scene(open_market(devices=1), cast, timezone.now() + timedelta(hours=1))


def record(scene: Scene) -> FleetChange:
    change = failure_record(device=Device.objects.get(name="lpu-a-0"), actor=scene.cast.admin, now=scene.now)
    assert change is not None
    return change


def credited(contract: Contract) -> Decimal:
    rows = CreditGrant.objects.filter(basis__contract=str(contract.pk))
    return rows.aggregate(sum=Sum("amount"))["sum"] or Decimal(0)


def test_every_contract_that_lost_time_is_credited_once_and_money_sums_to_zero(scene: Scene) -> None:
    program = scene.program(interval=SECOND, latency=SECOND)
    running, planned, waiting = (scene.contract((program, 100), window=timedelta(hours=2)) for _ in range(3))
    job = scene.job(planned, 40)
    done = scene.job(running, 100)
    held = Window.objects.filter(reservation__contract_id=running.pk).get()
    scene.now = held.start + timedelta(seconds=30)
    change = record(scene)
    windows = Window.objects.filter(reservation__contract_id__in=[waiting.pk, planned.pk])
    assert {str(one.pk) for one in windows} <= set(change.lost)
    assert not Window.objects.filter(state=WindowState.ACTIVE, period__endswith__gt=scene.now).exists()
    assert (credited(waiting), credited(planned), credited(running)) == (waiting.net, planned.net, running.net)
    for one in (job, done):
        one.refresh_from_db()
        assert one.state == JobState.FAILED
        assert "lpu-a-0 failed" in one.problem
    assert Lease.objects.filter(is_missed=True).count() == Lease.objects.filter(stage__job__in=[job, done]).count()
    assert Entry.objects.aggregate(sum=Sum("amount"))["sum"] == 0
    told = OutboxRow.objects.filter(topic="credit.granted").values_list("payload__credit", flat=True)
    assert {str(pk) for pk in CreditGrant.objects.values_list("pk", flat=True)} == set(told)
    assert guarantees_credit_due(now=scene.now) == 0  # nothing is credited again
    run = reconciliation_run(run_id=reconciliation_request(asked_by=scene.cast.admin, now=scene.now).pk, now=scene.now)
    assert run.differences == 0, [row.differences for row in run.rows.all()]
    with pytest.raises(Problem, match="credited, so the change cannot be undone"):
        fleet_undo(actor=scene.cast.admin, now=scene.now)


def test_what_another_device_absorbs_is_neither_lost_nor_credited(scene: Scene) -> None:
    Device.objects.create(pool=scene.market.lpu, name="lpu-a-1", state="spare")
    scene.contract((scene.program(interval=SECOND, latency=SECOND), 100))
    scene.now -= timedelta(minutes=1)  # the window is still to come
    change = record(scene)
    assert (change.lost, len(change.moves)) == ([], 1)
    assert not CreditGrant.objects.exists()
    assert Window.objects.get().device.name == "lpu-a-1"


def test_the_preview_says_what_a_failure_would_move(scene: Scene, as_user: Callable[[User], Client]) -> None:
    browser = as_user(scene.cast.admin)
    place = f"/fleet/devices/{Device.objects.get(name='lpu-a-0').pk}/failure"

    def said() -> str:
        return browser.get(place).content.decode()

    assert "No reserved window is on this device, so nothing moves and nothing is lost." in said()
    scene.contract((scene.program(interval=SECOND, latency=SECOND), 100))
    assert "Windows that no other device can take over are lost" in said()
    Device.objects.create(pool=scene.market.lpu, name="lpu-a-1", state="active")
    assert "Every reserved window of this device moves to another device, so nothing is lost." in said()
    assert "has failed" not in said()


def test_a_refused_record_changes_nothing(scene: Scene) -> None:
    contract = scene.contract((scene.program(interval=SECOND, latency=SECOND), 100))
    device = Device.objects.get(name="lpu-a-0")
    with pytest.raises(Problem, match="Somebody changed the fleet"):
        failure_record(device=device, expected="0" * 64, actor=scene.cast.admin, now=scene.now)
    assert Window.objects.get(reservation__contract_id=contract.pk).state == WindowState.ACTIVE


def test_a_failure_for_which_the_book_credits_nothing_is_recorded(cast: Cast) -> None:
    scene = Scene(open_market(change=lambda raw: raw.update(missed_guarantee="0")), cast, timezone.now())
    contract = scene.contract((scene.program(interval=SECOND, latency=SECOND), 100))
    scene.job(contract, 40)
    record(scene)
    assert Lease.objects.filter(is_missed=True).exists()
    assert not CreditGrant.objects.exists()
    assert guarantees_credit_due(now=scene.now) == 0
