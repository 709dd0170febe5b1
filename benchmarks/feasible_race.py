"""Eight processes that accept quotes of several organisations on few devices at once, for `benchmarks.feasible`.

Every quote is tried twice, by two processes, and most find no room. Meanwhile devices come, drain, fail and return. What is there
afterwards is compared by plain code over all rows: the database's own constraint, which forbids two windows at one time on one
device, is not asked.
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Any
from uuid import UUID

from benchmarks.feasible_market import Base
from benchmarks.feasible_truth import micros, overlapping

PROCESSES, ORGANISATIONS = 8, 4
POOLS = {"lpu-a": ("lpu", 2), "lpu2-b": ("lpu2", 3)}  # (processor, devices)
SECOND = 10_000  # executions of 90,000 cycles at 900 MHz
CAPPED, CAP = 3, Decimal("0.4")  # the last organisation may spend little
PAUSE, COMES, DEVICES_MOST = (
    1.0,
    0.3,
    6,
)  # seconds between two changes of the fleet; how often one adds a device, up to how many
SHOWN = 20

Attempt = tuple[UUID, UUID]  # quote, organisation


def race(attempts: int, seed: int, base: Base) -> bool:
    """Whether anything was sold twice, lost or left behind."""
    programs = _prepare(base)
    began = time.monotonic()
    count = -(-attempts // 2 // PROCESSES)
    parts = _together(_quote, [(programs, seed, number, count) for number in range(PROCESSES)])
    quotes = sorted(one for part in parts for one in part)
    seconds = time.monotonic() - began
    print(
        f"{len(quotes):,} quotes of {ORGANISATIONS} organisations made by {PROCESSES} processes in {seconds:.0f} s",
        flush=True,
    )
    order = (quotes * 2)[:attempts] if attempts >= len(quotes) else quotes[:attempts]
    random.Random(seed).shuffle(order)
    began = time.monotonic()
    context = multiprocessing.get_context("spawn")
    stop, told = context.Event(), context.Queue()
    changer = context.Process(target=_change, args=(seed, stop, told))
    changer.start()
    try:
        answers = sum(_together(_accept, [(order[n::PROCESSES],) for n in range(PROCESSES)]), Counter[str]())
    finally:
        stop.set()
        changes = told.get(timeout=120)
        changer.join()
    return _report(len(order), answers, changes, time.monotonic() - began)


def _together(work: Any, arguments: list[tuple[Any, ...]]) -> list[Any]:
    """What a process for each of the arguments answers, all at work at once."""
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    crew = [context.Process(target=_worker, args=(work, each, queue)) for each in arguments]
    for one in crew:
        one.start()
    found = [queue.get(timeout=3600) for _ in crew]
    for one in crew:
        one.join()
    return found


def _worker(work: Any, arguments: tuple[Any, ...], queue: Any) -> None:
    import django

    django.setup()
    queue.put(work(*arguments))


def _prepare(base: Base) -> list[tuple[UUID, str, list[UUID]]]:
    """(organisation, pool, a fast and a slow program) of four organisations; only the two pools that are sold are active."""
    from django.utils import timezone

    from apps.accounts.models import Organisation
    from apps.fleet.models import Device, Pool
    from apps.ledger.services import cap_set

    now, found = timezone.now(), []
    Pool.objects.filter(slug__in=POOLS).update(is_active=True)
    for slug, (_, count) in POOLS.items():
        pool = Pool.objects.get(slug=slug)
        Device.objects.bulk_create(
            Device(pool=pool, name=f"more-{each}") for each in range(count - pool.devices.count())
        )
    for number in range(ORGANISATIONS):
        organisation = Organisation.objects.create(name=f"Buyer {number}", slug=f"buyer-{number}")
        if number == CAPPED:
            cap_set(organisation=organisation, amount=CAP, currency="EUR", now=now)
        for slug, (target, _) in POOLS.items():
            made = [
                base.market.program(
                    organisation, base.engineer, target=target, interval=interval, latency=interval * 2 + 7
                )
                for interval in (90_000, 9_000_000_001)
            ]
            found.append((organisation.pk, slug, [one.pk for one in made]))
    return found


def _quote(programs: list[tuple[UUID, str, list[UUID]]], seed: int, number: int, count: int) -> list[Attempt]:
    """Quotes for seconds to hours within the next day: of one program, which may be cut, or of two in one piece."""
    from django.utils import timezone

    from apps.accounts.models import Organisation
    from apps.compilation.models import Program
    from apps.fleet.models import Pool
    from apps.sales.services import QuoteLine, quote_create
    from benchmarks.feasible import short_quotes

    dice, found = random.Random(f"{seed}/{number}"), []
    for _ in range(count):
        organisation_id, slug, (fast, slow) = dice.choice(programs)
        now, seconds = timezone.now(), dice.choice([1, 60, 600, 3600]) * dice.randrange(1, 9)
        start = now + timedelta(hours=2, microseconds=dice.randrange(12 * 3600 * 10**6))
        end = start + timedelta(seconds=seconds * dice.choice([2, 3, 10]) + 60)
        asked = {fast: [(fast, seconds * SECOND)], slow: [(slow, -(-seconds // 10))]}[dice.choice([fast, slow])]
        if dice.random() < 0.3:
            asked = [(fast, seconds * SECOND // 2 + 1), (slow, -(-seconds // 20))]
        lines = [QuoteLine(Program.objects.get(pk=pk), executions) for pk, executions in asked]
        with short_quotes(is_short=True):
            quote = quote_create(
                organisation=Organisation.objects.get(pk=organisation_id),
                lines=lines,
                klass=dice.choice(["standard", "batch"]),
                pool=Pool.objects.select_related("processor").get(slug=slug),
                window=(start, end),
                actor=None,
                now=now,
            )
        found.append((quote.pk, organisation_id))
    return found


def _accept(order: list[Attempt]) -> Counter[str]:
    from django.utils import timezone

    from apps.accounts.models import Organisation
    from apps.accounts.problems import Problem
    from apps.sales.services import quote_accept

    counted = Counter[str]()
    for quote_id, organisation_id in order:
        try:
            organisation = Organisation.objects.get(pk=organisation_id)
            quote_accept(quote_id=quote_id, organisation=organisation, actor=None, now=timezone.now())
            counted["won"] += 1
        except Problem as refusal:
            cause = f" ({str(refusal.__cause__).splitlines()[0]})" if refusal.__cause__ else ""
            counted[refusal.kind + cause] += 1
        except Exception as error:  # noqa: BLE001 - what breaks is part of the answer
            counted[f"broken: {error!r}"[:300]] += 1
    return counted


def _change(seed: int, stop: Any, told: Any) -> None:
    """Devices get another state, or come, until told to stop."""
    import django

    django.setup()
    from django.utils import timezone

    from apps.accounts.problems import Problem
    from apps.dispatch.fleet import edits, fleet_edit
    from apps.fleet.models import Device

    dice, counted = random.Random(f"{seed}/fleet"), Counter[str]()
    while not stop.wait(PAUSE):
        slug = dice.choice(sorted(POOLS))
        names = sorted(Device.objects.filter(pool__slug=slug, owned_until=None).values_list("name", flat=True))
        edit = edits.device_set(
            slug, dice.choice(names), dice.choice(["active", "active", "draining", "failed", "spare"])
        )
        if len(names) < DEVICES_MOST and dice.random() < COMES:
            edit = edits.devices_add(slug, 1, dice.choice(["active", "spare"]))
        try:
            change = fleet_edit(edit=edit, actor=None, now=timezone.now())
            counted["nothing to change" if change is None else "changed"] += 1
            counted["windows moved"] += len(change.moves) if change else 0
        except Problem as refusal:
            counted[f"refused: {refusal.kind}"] += 1
        except Exception as error:  # noqa: BLE001 - what breaks is part of the answer
            counted[f"broken: {error!r}"[:300]] += 1
    told.put(counted)


def _report(attempts: int, answers: Counter[str], changes: Counter[str], seconds: float) -> bool:
    wrong = [*_wrong(answers), *(kind for kind in changes if kind.startswith("broken"))]
    print(
        f"{attempts:,} attempts at accepting by {PROCESSES} processes: {seconds:.0f} s, {attempts / seconds:.0f} a second"
    )
    for title, counted in (("attempts", answers), ("changes of the fleet meanwhile", changes)):
        print(f"  {title}: " + ", ".join(f"{count:,} {kind}" for kind, count in counted.most_common()))
    for one in wrong[:SHOWN]:
        print(f"  WRONG: {one}")
    print(f"differences = {len(wrong)}")
    return bool(wrong)


def _wrong(answers: Counter[str]) -> Iterator[str]:
    """What is not as it must be, over all rows."""
    from apps.ledger.models import Hold
    from apps.sales.models import Contract, Quote
    from apps.timetable.models import Refusal, Reservation, Window

    yield from (kind for kind in answers if kind.startswith("broken"))
    columns = ("device", "period", "reservation__contract_id", "device__pool", "device__state")
    windows = list(Window.objects.filter(state="active").values_list(*columns))
    twice = overlapping([(row[0], micros(row[1].lower), micros(row[1].upper)) for row in windows])
    if twice:
        yield f"{twice} windows begin on a device before another one has ended"
    contracts = {one.pk: one for one in Contract.objects.select_related("quote")}
    by_contract = defaultdict(list)
    for row in windows:
        by_contract[row[2]].append(row)
    for pk, contract in contracts.items():
        yield from _short(contract, by_contract.pop(pk, []))
    yield from (f"windows of {pk}, which is no contract" for pk in by_contract)
    won = answers["won"]
    counts = {
        "contracts": len(contracts),
        "holds": Hold.objects.count(),
        "reservations": Reservation.objects.count(),
        "accepted quotes": Quote.objects.filter(state="accepted").count(),
        "quotes with a contract": len({one.quote_id for one in contracts.values()}),
    }
    yield from (f"{won} won, {count} {name}" for name, count in counts.items() if count != won)
    refused = Refusal.objects.count()
    if refused != answers["capacity-taken"]:
        yield f"{answers['capacity-taken']} refused for capacity, {refused} noted"
    held = {one.contract_id: one.amount for one in Hold.objects.all()}
    if held != {pk: contract.net for pk, contract in contracts.items()}:
        yield f"holds of {sum(held.values())}, contracts of {sum(one.net for one in contracts.values())}"
    capped = sum((one.net for one in contracts.values() if one.organisation.slug == f"buyer-{CAPPED}"), Decimal(0))
    if capped > CAP:
        yield f"a cap of {CAP} holds {capped}"


def _short(contract: Any, windows: list[Any]) -> Iterator[str]:
    """What is wrong with a contract's windows, by its terms: too little time, outside of its period, not its pool's devices."""
    terms, pool = contract.terms, contract.pool
    lines = [(one["executions"], one["program"]) for one in terms["lines"]]
    clock = Fraction(lines[0][1]["clock_hz"] * pool.power_percent, 100)
    setup = max(max(one["latency_cycles"] - one["cycles"], 0) for _, one in lines) / clock
    setup += sum((one.get("load") or {"cycles_in": 0})["cycles_in"] for _, one in lines) / clock
    lengths = [Fraction(micros(period.upper) - micros(period.lower), 10**6) for _, period, *_ in windows]
    if len(lines) > 1 or len(windows) == 1:
        needed = setup + sum(count * one["cycles"] / clock for count, one in lines)
        enough = len(windows) == 1 and lengths[0] >= needed
    else:
        each = lines[0][1]["cycles"] / clock
        enough = sum(max(0, floor((length - setup) / each)) for length in lengths) >= lines[0][0]
    if not enough:
        yield f"contract {contract.pk} has {lengths} s in {len(windows)} windows, too little for its terms"
    for _, period, _, pool_id, state in windows:
        if pool_id != contract.pool_id or state in {"failed", "spare"}:
            yield f"contract {contract.pk} has a window on a device of another pool, or one that is {state}"
        if period.lower < contract.starts_at or period.upper > contract.ends_at:
            yield f"contract {contract.pk} has a window that lies outside its period"
