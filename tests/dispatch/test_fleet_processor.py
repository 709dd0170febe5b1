"""A processor of one's own in the fleet: offered by its file, compiled for, quoted, run and billed."""

from __future__ import annotations

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.problems import Problem
from apps.dispatch.fleet import edits, fleet_edit, fleet_undo
from apps.dispatch.models import Lease
from apps.dispatch.services import job_create
from apps.dispatch.services.jobs import Seeded
from apps.fleet.models import Pool
from apps.ledger.models import UsageRow
from compiler import targets
from tests.cast import Cast
from tests.dispatch.real import digits_programs
from tests.dispatch.scene import Scene
from tests.dispatch.test_execution import execute
from tests.sales.market import open_market

CHIP = targets.text("lpu").replace('name = "lpu"', 'name = "chip"', 1).replace("900_000_000", "450_000_000", 1)


@pytest.fixture
def present(transactional_db: None, cast: Cast) -> Scene:
    """The scene in the real present, with rows that a heartbeat's own connection sees."""
    return Scene(open_market(), cast, timezone.now())


def test_a_processor_of_ones_own_is_compiled_for_sold_and_run(present: Scene, client: Client) -> None:
    fleet_edit(edit=edits.processor_set("chip", CHIP), actor=present.cast.admin, now=present.now)
    facts = {"site": "here", "processor": "chip", "devices": 1, "power_percent": 50}
    fleet_edit(edit=edits.pool_set("chip-d", facts), actor=present.cast.admin, now=present.now)
    (program,) = digits_programs(present, "digits-small", "chip")
    assert (program.target, program.clock_hz) == ("chip", 450_000_000)
    contract = present.contract((program, 4), pool=Pool.objects.get(slug="chip-d"))
    job = job_create(contract=contract, arrays=Seeded(2), actor=present.cast.engineer, now=present.now)
    present.now = timezone.now()
    assert all(execute(job))
    lease = Lease.objects.get(stage__job=job)
    assert (lease.state, lease.stage.clock_hz) == ("done", 225_000_000)
    assert UsageRow.objects.get().cycles == 2 * program.interval_cycles
    slower = CHIP.replace("450_000_000", "300_000_000", 1)
    with pytest.raises(Problem, match=str(contract.pk)):
        fleet_edit(edit=edits.processor_set("chip", slower), actor=None, now=present.now)
    with pytest.raises(Problem, match="there is no processor 'chip'"):
        fleet_edit(edit=edits.processor_remove("chip"), actor=None, now=present.now)
    with pytest.raises(Problem, match=str(contract.pk)):
        fleet_undo(actor=None, now=present.now)
    client.force_login(present.cast.viewer)
    assert client.get("/targets/chip").status_code == 200
    assert client.get("/targets/chip/file").content.decode() == CHIP
