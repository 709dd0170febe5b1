"""Processes die at every place that money passes; what was executed is billed once, and nothing is missing or doubled."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models import Sum
from django.utils import timezone

from apps.accounts.failpoints import COLLECTION_POINTS, POINTS
from apps.accounts.problems import Problem
from apps.billing.models import Invoice
from apps.billing.outbox import outbox_deliver
from apps.billing.selectors import reconcile_all
from apps.billing.services import invoice_issue
from apps.config.celery import app
from apps.dispatch import services
from apps.dispatch.execution import lease_execute
from apps.dispatch.models import Job, JobState, Lease, LeaseState
from apps.dispatch.services.leases import SILENT_AFTER
from apps.ledger.models import OutboxRow, UsageRow
from apps.ledger.selectors import balances, hold_of
from apps.pricing.rating import exact_sum
from apps.sales.services import contracts_close_due
from tests.cast import Cast
from tests.dispatch.real import real_program
from tests.dispatch.scene import Scene
from tests.faults.mortal import killed_at
from tests.sales.market import open_market

ROOT = Path(__file__).resolve().parents[2]
ITEMS = 300  # two leases: 256 and 44


@dataclass
class Works:
    """Everything that the platform's workers do by themselves, in one process, up to the invoice."""

    scene: Scene
    job: Job

    def forward(self) -> None:
        """One round of every worker and sweep. A repetition does what is left."""
        services.leases_reoffer_silent(now=self.scene.now)
        services.leases_offer_due(now=self.scene.now)
        for lease in Lease.objects.filter(state=LeaseState.OFFERED).order_by("device_from"):
            lease_execute(lease_id=lease.pk, epoch=lease.epoch, host="here", clock=self.clock)
        services.jobs_advance_due(now=self.scene.now)
        contracts_close_due(now=self.scene.now)
        try:
            after = self.scene.now + timedelta(seconds=1)  # an invoice is over what was used before its instant
            invoice_issue(organisation=self.scene.cast.organisation, actor=None, now=after)
        except Problem as refusal:
            if refusal.kind != "nothing-to-invoice":
                raise
        outbox_deliver(now=self.scene.now)

    def clock(self) -> datetime:
        """The scene's present."""
        return self.scene.now


def dear(document: dict[str, Any]) -> None:
    """A price at which even a small program comes to more than a cent."""
    document["prices"]["lpu"]["float32"] = "8000000"


@pytest.fixture
def works(transactional_db: None, cast: Cast) -> Iterator[Works]:
    """A job of two leases under a contract that it uses up, ready to run."""
    present = Scene(open_market(devices=2, change=dear), cast, timezone.now())
    contract = present.contract((real_program(present), ITEMS))
    job = present.job(contract, ITEMS, shape=(1, 8))
    present.pass_time(minutes=5)
    yield Works(present, job)
    with app.connection_for_write() as connection, connection.channel() as channel:
        channel.client.flushdb()  # nobody took the messages


def check_all_equal(works: Works) -> None:
    """Executed, metered, posted, invoiced: the same counts and the same sums, and no difference anywhere."""
    organisation, contract = works.scene.cast.organisation, works.job.contract
    works.job.refresh_from_db()
    assert works.job.state == JobState.DONE, works.job.problem
    rows = UsageRow.objects.filter(organisation=organisation)
    done = Lease.objects.filter(stage__job=works.job, state=LeaseState.DONE)
    assert Counter(rows.values_list("lease_id", flat=True)) == Counter(done.values_list("pk", flat=True))
    assert rows.aggregate(q=Sum("quantity"))["q"] == ITEMS
    assert exact_sum(rows.values_list("amount", flat=True)) == contract.net
    assert exact_sum(Invoice.objects.filter(organisation=organisation).values_list("net", flat=True)) == contract.net
    found = reconcile_all(organisation)
    assert found.differences == []
    assert found.open == 0
    hold = hold_of(contract.pk)
    assert hold is not None
    assert (hold.state, hold.posted) == ("posted", contract.net)
    assert exact_sum(balances(organisation.pk).values()) == 0
    assert not OutboxRow.objects.filter(delivered_at=None).exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("point", POINTS)
def test_a_process_that_dies_anywhere_loses_nothing_and_charges_nothing_twice(
    works: Works, point: str, tmp_path: Path
) -> None:
    assert killed_at(point, works.forward, marker=tmp_path / "once"), f"nothing passes {point}"
    works.scene.pass_time(seconds=SILENT_AFTER.total_seconds() + 1)
    works.forward()
    works.forward()  # and once more: there is nothing left to do
    check_all_equal(works)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("jump", [timedelta(days=-400), timedelta(hours=-1), timedelta(hours=1)])
def test_a_clock_that_jumps_amid_a_lease_changes_no_price(works: Works, jump: timedelta) -> None:
    readings = iter([works.scene.now])

    def jumping() -> datetime:
        return next(readings, works.scene.now + jump)

    services.leases_offer_due(now=works.scene.now)
    for lease in Lease.objects.filter(state=LeaseState.OFFERED).order_by("device_from"):
        lease_execute(lease_id=lease.pk, epoch=lease.epoch, host="here", clock=jumping)
    works.scene.pass_time(seconds=3600)
    works.forward()
    check_all_equal(works)


def test_every_fail_point_stands_in_the_code_exactly_once() -> None:
    found: Counter[str] = Counter()
    for path in (ROOT / "apps").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "failpoint":
                found[ast.literal_eval(node.args[0])] += 1
    assert found == Counter((*POINTS, *COLLECTION_POINTS))
