"""The fleet changes while it is sold: nothing sold is lost, or nothing changes; and the last change can be undone."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from apps.accounts.models import AuditEntry
from apps.accounts.problems import Problem
from apps.dispatch.fleet import edits, fleet_apply, fleet_edit, fleet_preview, fleet_undo
from apps.dispatch.models import Lease, LeaseState
from apps.fleet.current import document_now
from apps.fleet.document import Document, write
from apps.fleet.models import Device, FleetChange, Pool
from apps.sales.services import contract_end, quote_accept, quote_create
from apps.timetable.models import Window, WindowState
from apps.timetable.services import CapacityTaken, reservation_take
from compiler import targets
from tests.dispatch.scene import Scene

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
HELD = (WindowState.ACTIVE,)


def sold(scene: Scene) -> dict[object, tuple[object, ...]]:
    """What every customer holds: windows with contract, pool and period, whatever the device."""
    rows = Window.objects.filter(state__in=HELD).values_list(
        "pk", "reservation__contract_id", "device__pool__slug", "period"
    )
    return {row[0]: row[1:] for row in rows}


def misplaced(scene: Scene) -> list[str]:
    """Devices that hold time to come and may not."""
    rows = Window.objects.filter(state__in=HELD, period__endswith__gt=scene.now).exclude(
        device__state__in=["active", "draining"]
    )
    retired = Window.objects.filter(state__in=HELD, period__endswith__gt=scene.now, device__owned_until__isnull=False)
    return [str(one.device) for one in (*rows, *retired)]


def sell(scene: Scene, start: timedelta, length: timedelta, slug: str = "lpu-a") -> Window:
    """A window of exactly these instants, on whatever device has it free."""
    begin = scene.now + start
    taken = reservation_take(
        contract_id=uuid4(),
        organisation_id=scene.cast.organisation.pk,
        pool=Pool.objects.get(slug=slug),
        duration=Fraction(int(length.total_seconds())),
        not_before=begin,
        not_after=begin + length,
        klass="standard",
        now=scene.now,
    )
    return taken.windows.get()


def edited(scene: Scene, *edit: Callable[[dict], None]) -> FleetChange | None:  # type: ignore[type-arg]
    def every(raw: dict) -> None:  # type: ignore[type-arg]
        for one in edit:
            one(raw)

    return fleet_edit(edit=every, actor=scene.cast.admin, now=scene.now)


def changed(document: Document, chance: random.Random) -> Document:
    """Some devices get other states, some go, some come."""
    pools = {}
    for slug, pool in document.pools.items():
        devices = dict(pool.devices)
        for name in list(devices):
            dice = chance.random()
            if dice < 0.1:
                del devices[name]
            elif dice < 0.4:
                devices[name] = chance.choice(["active", "draining", "failed", "spare"])
        for number in range(chance.choice([0, 0, 1, 2])):
            devices[f"new-{chance.randrange(10**9)}-{number}"] = chance.choice(["active", "active", "spare"])
        pools[slug] = replace(pool, devices=devices)
    return replace(document, pools=pools)


@pytest.mark.parametrize("seed", range(3))
def test_whatever_changes_nothing_sold_is_lost_and_undo_restores_the_digest(scene: Scene, seed: int) -> None:
    chance, outcomes = random.Random(seed), {"applied": 0, "refused": 0, "undone": 0}
    for _ in range(15):
        for _ in range(3):
            with suppress(CapacityTaken):
                sell(scene, HOUR * chance.randrange(0, 12), HOUR * chance.randrange(1, 4))
        held, before = sold(scene), document_now()
        try:
            change = fleet_apply(document=changed(before, chance), actor=None, now=scene.now)
            outcomes["applied"] += 1
        except Problem as refused:
            assert refused.kind == "fleet-promises"  # noqa: PT017
            outcomes["refused"] += 1
            assert document_now() == before
            change = None
        assert sold(scene) == held
        assert misplaced(scene) == []
        if change is not None and chance.random() < 0.3:
            assert fleet_undo(actor=None, now=scene.now).pk == change.pk
            assert document_now().digest == change.before_digest
            outcomes["undone"] += 1
            assert sold(scene) == held
            assert misplaced(scene) == []
        scene.pass_time(minutes=30)
    assert all(outcomes.values()), outcomes


def test_a_window_moves_with_its_planned_leases_and_comes_back(scene: Scene) -> None:
    contract = scene.contract((scene.program(), 1000))
    scene.now -= timedelta(minutes=5)
    window = Window.objects.get(reservation__contract_id=contract.pk)
    job = scene.job(contract, items=3)
    lease = Lease.objects.filter(stage__job=job).latest("from_item")
    assert lease.state == LeaseState.PLANNED
    home = window.device
    change = edited(scene, edits.device_set("lpu-a", home.name, None))
    assert change is not None
    assert change.summary == "1 device removed: 1 reservation moves, none is lost."
    window.refresh_from_db()
    lease.refresh_from_db()
    assert window.device_id == lease.device_id != home.pk
    with pytest.raises(Problem, match="no other place") as refused:
        edited(scene, edits.device_set("lpu-a", window.device.name, "spare"))
    assert str(contract.pk) in refused.value.detail
    assert scene.cast.organisation.name in refused.value.detail
    fleet_undo(actor=scene.cast.admin, now=scene.now)
    window.refresh_from_db()
    lease.refresh_from_db()
    assert window.device_id == lease.device_id == home.pk
    assert Device.objects.get(pk=home.pk).owned_until is None
    assert set(AuditEntry.objects.values_list("action", flat=True)) >= {"fleet.change", "fleet.undo"}
    scene.now = max(scene.now, lease.device_from)
    scene.run(job)
    assert job.state == "done"


def test_undo_is_refused_where_what_was_sold_since_has_no_place(scene: Scene) -> None:
    added = edited(scene, edits.devices_add("lpu-a", 1))
    assert added is not None
    windows = [sell(scene, HOUR, HOUR) for _ in range(3)]
    with pytest.raises(Problem) as refused:
        fleet_undo(actor=None, now=scene.now)
    assert refused.value.kind == "fleet-promises"
    (named,) = refused.value.errors
    assert named["contract"] in {str(one.reservation.contract_id) for one in windows}
    assert document_now().digest == added.after_digest
    scene.pass_time(hours=3)
    fleet_undo(actor=None, now=scene.now)
    assert document_now().digest == added.before_digest
    with pytest.raises(Problem, match="no change to the fleet to undo"):
        fleet_undo(actor=None, now=scene.now)


def test_a_draining_device_keeps_what_has_no_other_place_and_says_until_when(scene: Scene) -> None:
    for _ in range(2):
        sell(scene, HOUR, HOUR)
    later = sell(scene, 5 * HOUR, HOUR)
    plan = fleet_preview(document=_with(scene, "lpu-a", later.device.name, "draining"), now=scene.now)
    end = scene.now + 2 * HOUR
    assert plan.sentence() == (
        "1 device drained: 1 reservation moves, none is lost. "
        f"lpu-a.{later.device.name} keeps 1 window until {end:%Y-%m-%d %H:%M} UTC."
    )
    edited(scene, edits.device_set("lpu-a", later.device.name, "draining"))
    with pytest.raises(CapacityTaken):
        sell(scene, 5 * HOUR, HOUR)
    with pytest.raises(Problem, match="1 contract holds time"):  # it may not go before that
        edited(scene, edits.device_set("lpu-a", later.device.name, None))


def test_a_spare_stands_in_for_a_device_that_fails(scene: Scene) -> None:
    edited(scene, edits.devices_add("lpu-a", 2, "spare"))
    for _ in range(2):
        sell(scene, HOUR, HOUR)
    change = edited(scene, edits.device_set("lpu-a", "lpu-a-0", "failed"))
    assert change is not None
    assert "Spare devices that replace failed ones: lpu-a.lpu-a-2." in change.summary
    assert document_now().pools["lpu-a"].devices == {
        "lpu-a-0": "failed",
        "lpu-a-1": "active",
        "lpu-a-2": "active",
        "lpu-a-3": "spare",
    }
    fleet_undo(actor=None, now=scene.now)
    assert document_now().pools["lpu-a"].devices["lpu-a-2"] == "spare"
    assert misplaced(scene) == []


def test_undo_brings_no_spare_into_service(scene: Scene) -> None:
    edited(scene, edits.devices_add("lpu-a", 1, "spare"), edits.device_set("lpu-a", "lpu-a-0", "failed"))
    edited(scene, edits.device_set("lpu-a", "lpu-a-0", "active"))
    for _ in range(2):
        sell(scene, HOUR, HOUR)
    with pytest.raises(Problem, match="1 contract holds time"):
        fleet_undo(actor=None, now=scene.now)
    assert misplaced(scene) == []


def test_a_pool_with_promises_neither_goes_nor_changes_its_processor(scene: Scene) -> None:
    contract = scene.contract((scene.program(), 10))
    for edit in (edits.pool_remove("lpu-a"), edits.pool_set("lpu-a", {"processor": "lpu2", "class": "lpu"})):
        with pytest.raises(Problem, match=str(contract.pk)):
            edited(scene, edit)
    with pytest.raises(Problem, match="stays one") as fixed:
        edited(scene, edits.pool_set("lpu2-b", {"class": "lpu"}))
    assert fixed.value.kind == "fleet-pool-fixed"
    edited(scene, edits.pool_remove("lpu2-b"))
    assert not Pool.objects.get(slug="lpu2-b").is_active
    fleet_undo(actor=None, now=scene.now)
    assert Pool.objects.get(slug="lpu2-b").devices.filter(state="active", owned_until=None).count() == 2


def test_a_pool_at_half_its_clock_takes_exactly_twice_the_time_for_the_same_price(scene: Scene) -> None:
    program = scene.program()
    full = scene.contract((program, 1000))
    with pytest.raises(Problem, match=str(full.pk)):
        edited(scene, edits.pool_set("lpu-a", {"power_percent": 50}))
    stale = quote_create(
        organisation=scene.cast.organisation,
        lines=[(program, 1)],
        klass="standard",
        pool=scene.market.lpu,
        actor=scene.cast.engineer,
        now=scene.now,
    )
    contract_end(contract_id=full.pk, organisation=scene.cast.organisation, actor=scene.cast.engineer, now=scene.now)
    edited(scene, edits.pool_set("lpu-a", {"power_percent": 50}))
    with pytest.raises(Problem) as refused:
        quote_accept(quote_id=stale.pk, organisation=scene.cast.organisation, actor=None, now=scene.now)
    assert refused.value.kind == "pool-changed"
    scene.market.lpu.refresh_from_db()
    half = scene.contract((program, 1000))
    assert Fraction(half.quote.document["device_seconds"]) == 2 * Fraction(full.quote.document["device_seconds"])
    assert half.net == full.net
    job = scene.job(half, items=1)
    lease = Lease.objects.get(stage__job=job)
    assert lease.stage.clock_hz == 450_000_000
    assert lease.next_cycle - lease.first_cycle == program.interval_cycles
    odd = targets.text("edge").replace('name = "edge"', 'name = "chip"', 1).replace("1_000_000_000", "1_000_000_001", 1)
    facts = {"site": "here", "processor": "chip", "power_percent": 33}
    with pytest.raises(Problem, match="33 % of 1,000,000,001 Hz is no whole number"):
        edited(scene, edits.processor_set("chip", odd), edits.pool_set("chip-d", facts))


def test_an_edit_of_a_fleet_that_has_changed_since_is_refused(scene: Scene) -> None:
    seen = document_now()
    edited(scene, edits.devices_add("lpu-a", 1))
    with pytest.raises(Problem) as refused:
        fleet_apply(document=seen, expected=seen.digest, actor=None, now=scene.now)
    assert refused.value.kind == "fleet-changed"
    with pytest.raises(Problem, match="IANA"):
        edited(scene, edits.site_set("here", {"time_zone": "Nowhere/Here"}))


def test_the_command_exports_compares_applies_and_undoes(
    scene: Scene, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.toml"
    call_command("fleet", "export")
    file.write_text(capsys.readouterr().out)
    call_command("fleet", "diff", str(file))
    assert capsys.readouterr().out == "No difference.\n"
    document = document_now()
    sites = {**document.sites, "away": replace(document.sites["here"], name="Away")}
    file.write_text(write(replace(document, sites=sites)))
    call_command("fleet", "apply", str(file))
    call_command("fleet", "undo")
    call_command("fleet", "log")
    assert "(undone " in capsys.readouterr().out
    assert document_now() == document
    sell(replace(scene, now=timezone.now()), HOUR, HOUR)  # the command goes by the clock
    file.write_text(write(replace(document, pools={})))
    for text, status in ((file.read_text(), 1), ("pools = 1", 2)):
        file.write_text(text)
        with pytest.raises(CommandError) as refused:
            call_command("fleet", "diff", str(file))
        assert refused.value.returncode == status


def _with(scene: Scene, slug: str, device: str, state: str) -> Document:
    document = document_now()
    pool = document.pools[slug]
    devices = {**pool.devices, device: state}
    return replace(document, pools={**document.pools, slug: replace(pool, devices=devices)})
