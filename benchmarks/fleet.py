"""A fleet that changes while it is sold: `python -m benchmarks.fleet [CHANGES] [SEED]`

Two pools with 200 devices together. Two processes make quotes, accept them through the real service and submit jobs, without a
pause, while this one applies CHANGES random fleet documents (devices come, go, drain, fail, become spare) and undoes a third of
them. After each change everything that was sold before it is compared: windows, instants, contracts, planned leases. At the end
changes are undone as far as that goes. Exit status 1 when anything sold is lost or moved in time, when a device holds time that
it may not hold, or when an undo does not restore the digest.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from benchmarks.arguments import counts
from benchmarks.private import house

if TYPE_CHECKING:
    from apps.fleet.document import Document

POOLS = {"lpu-a": 120, "lpu2-b": 80}
SELLERS, SOLD_FIRST = 2, 200
HOUR = 3600 * 10_000  # executions of 90,000 cycles at 900 MHz
PATIENCE = 600.0  # seconds until the first contracts are there


@dataclass
class Told:
    """What the run came to."""

    outcomes: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)
    undone: int = 0
    digests_equal: int = 0
    moves: int = 0
    named: int = 0
    refused: str = ""
    seconds: list[float] = field(default_factory=list)


def main(arguments: list[str]) -> int:
    changes, seed = counts("fleet", __doc__ or "", arguments, changes=40, seed=1)
    with house():
        programs = _prepare()
        context = multiprocessing.get_context("spawn")
        stop, results = context.Event(), context.Queue()
        sellers = [
            context.Process(target=_sell, args=(programs, seed * SELLERS + number, stop, results))
            for number in range(SELLERS)
        ]
        for seller in sellers:
            seller.start()
        try:
            told = _change(changes, random.Random(seed))
        finally:
            stop.set()
            sold = sum((results.get(timeout=120) for _ in sellers), Counter())
            for seller in sellers:
                seller.join()
        return _judge(changes, told, sold)


def _prepare() -> list[tuple[UUID, str]]:
    """The fleet of 200 devices, and a program for each of its pools."""
    from django.utils import timezone

    from apps.dispatch.fleet import edits, fleet_edit
    from tests.cast import assemble
    from tests.dispatch.scene import Scene
    from tests.sales.market import open_market

    scene = Scene(open_market(devices=1), assemble(), timezone.now())
    for slug, count in POOLS.items():
        fleet_edit(edit=edits.devices_add(slug, count - 1), actor=None, now=scene.now)
    return [(scene.program(target=target).pk, slug) for slug, target in (("lpu-a", "lpu"), ("lpu2-b", "lpu2"))]


def _sell(programs: list[tuple[UUID, str]], seed: int, stop: Any, results: Any) -> None:
    """Quotes, acceptances and jobs until told to stop."""
    import django

    django.setup()
    from apps.accounts.models import Organisation
    from apps.accounts.problems import Problem

    organisation = Organisation.objects.get(slug="acme-vision")
    dice, counted = random.Random(seed), Counter[str]()
    while not stop.is_set():
        try:
            counted[_sell_one(organisation, *dice.choice(programs), dice)] += 1
        except Problem as refusal:
            counted[refusal.kind] += 1
        except Exception as error:  # noqa: BLE001 - what breaks is part of the answer
            counted[f"broken: {error!r}"[:200]] += 1
    results.put(counted)


def _sell_one(organisation: Any, program_id: UUID, slug: str, dice: random.Random) -> str:
    from django.utils import timezone

    from apps.compilation.models import Program
    from apps.dispatch.services import job_create
    from apps.dispatch.services.jobs import Seeded
    from apps.fleet.models import Pool
    from apps.sales.services import QuoteLine, quote_accept, quote_create

    now, hours = timezone.now(), dice.randrange(3, 9)
    start = now + timedelta(hours=dice.randrange(1, 5))
    quote = quote_create(
        organisation=organisation,
        lines=[QuoteLine(Program.objects.get(pk=program_id), hours * HOUR)],
        klass="standard",
        pool=Pool.objects.get(slug=slug),
        window=(start, start + timedelta(hours=hours, minutes=1)),
        actor=None,
        now=now,
    )
    contract = quote_accept(quote_id=quote.pk, organisation=organisation, actor=None, now=timezone.now())
    if dice.random() < 0.5:
        job_create(contract=contract, arrays=Seeded(20), actor=None, now=timezone.now())
        return "sold, with a job"
    return "sold"


def _change(changes: int, dice: random.Random) -> Told:
    from apps.sales.models import Contract

    told, began = Told(), time.monotonic()
    while Contract.objects.count() < SOLD_FIRST:
        if time.monotonic() - began > PATIENCE:
            raise SystemExit(f"only {Contract.objects.count()} contracts after {PATIENCE:.0f} s")
        time.sleep(0.2)
    for _ in range(changes):
        is_applied = _apply_one(told, dice)
        if is_applied and dice.random() < 1 / 3:
            _undo_one(told)
    while _undo_one(told):
        pass
    return told


def _apply_one(told: Told, dice: random.Random) -> bool:
    from django.utils import timezone

    from apps.accounts.problems import Problem
    from apps.dispatch.fleet import fleet_apply
    from apps.fleet.current import document_now

    held, document = _held(), document_now()
    began = time.monotonic()
    try:
        change = fleet_apply(document=_changed(document, dice), actor=None, now=timezone.now())
        told.outcomes["applied"] += 1
        told.moves += len(change.moves) if change else 0
    except Problem as refusal:
        told.outcomes[f"refused: {refusal.kind}"] += 1
        told.named += len(refusal.errors)
        told.refused = told.refused or refusal.detail
        if document_now() != document:
            told.differences.append("a refused change left something behind")
        change = None
    told.seconds.append(time.monotonic() - began)
    told.differences += _compare(held)
    return change is not None


def _undo_one(told: Told) -> bool:
    from django.utils import timezone

    from apps.accounts.problems import Problem
    from apps.dispatch.fleet import fleet_undo
    from apps.fleet.current import document_now

    held = _held()
    began = time.monotonic()
    try:
        change = fleet_undo(actor=None, now=timezone.now())
    except Problem as refusal:
        told.outcomes[f"undo refused: {refusal.kind}"] += 1
        return False
    finally:
        told.seconds.append(time.monotonic() - began)
        told.differences += _compare(held)
    told.undone += 1
    told.digests_equal += document_now().digest == change.before_digest
    return True


def _changed(document: Document, dice: random.Random) -> Document:
    """Up to a tenth of a pool's devices get another state or go, and some come; now and then a whole pool goes."""
    pools = {}
    gone = dice.choice(sorted(document.pools)) if dice.random() < 1 / 10 else ""
    for slug, pool in document.pools.items():
        if slug == gone:
            continue
        devices, names = dict(pool.devices), sorted(pool.devices)
        for name in dice.sample(names, min(len(names), dice.randrange(len(names) // 10 + 1))):
            state = dice.choice(["active", "active", "draining", "draining", "failed", "spare", ""])
            if state:
                devices[name] = state
            else:
                del devices[name]
        for _ in range(dice.choice([0, 0, 5, 10, 20])):
            devices[f"more-{dice.randrange(10**9)}"] = dice.choice(["active", "active", "spare"])
        pools[slug] = pool if pool.is_host else replace(pool, devices=devices)
    return replace(document, pools=pools)


def _held() -> dict[UUID, tuple[Any, ...]]:
    """Every window that is sold, without its device."""
    from apps.timetable.models import Window

    rows = Window.objects.filter(state="active").order_by()
    return {
        row[0]: row[1:] for row in rows.values_list("pk", "reservation__contract_id", "device__pool__slug", "period")
    }


def _compare(held: dict[UUID, tuple[Any, ...]]) -> list[str]:
    """What is lost, moved in time or wrongly placed."""
    from django.db.models import F, Q
    from django.utils import timezone

    from apps.dispatch.models import Lease
    from apps.timetable.models import Window

    now = _held()
    found = [f"window {pk} was {was}, is {now.get(pk)}" for pk, was in held.items() if now.get(pk) != was]
    bad = Q(device__state__in=["failed", "spare"]) | Q(device__owned_until__isnull=False)
    wrong = Window.objects.filter(bad, state="active", period__endswith__gt=timezone.now())
    found += [
        f"window {one.pk}, sold {one.reservation.created_at:%H:%M:%S}, is on {one.device}, {one.device.state}, "
        f"retired {one.device.owned_until}"
        for one in wrong.select_related("device", "reservation")
    ]
    apart = Lease.objects.filter(state="planned").exclude(device=F("window__device"))
    return found + [f"lease {one.pk} is not where its window is" for one in apart]


def _judge(changes: int, told: Told, sold: Counter[str]) -> int:
    print(f"{changes} changes of {sum(POOLS.values())} devices while {SELLERS} processes sold")
    for title, counted in (("changes", told.outcomes), ("sales", sold)):
        print(f"  {title}: " + ", ".join(f"{count:,} {kind}" for kind, count in counted.most_common()))
    print(f"  windows moved with a change: {told.moves:,}; contracts named in refusals: {told.named:,}")
    if told.refused:
        print(f"  refused, for example: {told.refused[:200]}")
    print(f"  undone: {told.undone}, digest as before: {told.digests_equal}")
    ordered = sorted(told.seconds)
    print(f"  apply or undo: median {ordered[len(ordered) // 2]:.2f} s, slowest {ordered[-1]:.2f} s")
    for one in told.differences[:20]:
        print(f"  {one}")
    broken = sum(count for kind, count in sold.items() if kind.startswith("broken"))
    print(f"differences = {len(told.differences)}")
    return 1 if told.differences or told.undone != told.digests_equal or broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
