"""Quotes accepted while thousands of windows are placed: `python -m benchmarks.admission [--small] [SEED]`

Pools of 50, 5 and 500 devices on which 5,000 windows are sold, and of 50 with 50,000: 1 to 10 minutes each, one after another
on every device, with a break of half a minute to five minutes after every fifth or so. Quotes are for 10 s to 20 minutes of
device time within 60 days, half of them from now on, half from a random instant of the sold stretch on; 48 for each pool are
made by the service, the others are the same under new numbers. `quote_accept` itself on a PostgreSQL that writes durably:

- 500 quotes of one organisation, one after another: p50, p99, and processor time of one, here and in its session;
- 8 processes, quotes of 16 organisations in random order on 50 devices with 5,000 windows: accepted per second, once with
  this demand and once with everybody wanting the first free minute;
- beside both the way it was before: all devices of the pool locked, every window read and placed here; and bare commits.

Afterwards no time may be sold twice, and each contract must have the windows and the hold that its quote says. How busy others
kept the machine is printed with each figure. Exit status 1 when the p99 with 50 devices and 5,000 windows is 50 ms or more,
when fewer than 50 quotes are accepted per second, or when anything is sold twice.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

from benchmarks.admission_checks import as_it_was, faults
from benchmarks.arguments import parser, whole
from benchmarks.private import house

if TYPE_CHECKING:
    from apps.accounts.models import Organisation, User
    from apps.fleet.models import Pool
    from apps.sales.models import Quote
    from tests.sales.market import Market

PROCESSES, ORGANISATIONS = 8, 16
KINDS = 48  # of quotes that the service makes for a pool; the others are copies
P99, RATE = 0.050, 50.0
DAYS = 60
MAIN = (50, 5_000)


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    cells: tuple[tuple[int, int], ...]  # devices and windows
    singly: int  # quotes accepted one after another
    before: int  # the same the way it was
    together: int  # quotes that the processes share
    commits: int  # of each process


FULL = Size((MAIN, (5, 5_000), (500, 5_000), (50, 50_000)), 500, 40, 800, 500)
SMALL = Size((MAIN,), 60, 10, 256, 100)


@dataclass
class Scene:
    """The market, its buyers, and what was accepted."""

    market: Market
    buyers: list[tuple[Organisation, User, Any]]
    now: datetime
    dice: random.Random
    wrong: list[str] = field(default_factory=list)


def main(arguments: list[str]) -> int:
    command = parser("admission", __doc__ or "")
    command.add_argument("seed", nargs="?", type=whole, default=1, help="default: 1")
    command.add_argument("--small", action="store_true", help="one pool and few quotes, in seconds")
    given = command.parse_args(arguments)
    size = SMALL if given.small else FULL
    with house():
        scene = _scene(random.Random(given.seed))
        slowest = _cells(scene, size)
        rates = [_raced(scene, size, from_now=False), _raced(scene, size, from_now=True)]
        return _judge(scene, slowest, min(rates))


def _scene(dice: random.Random) -> Scene:
    from django.utils import timezone

    from apps.accounts.models import Membership, Organisation
    from apps.accounts.roles import Role
    from tests.cast import person
    from tests.sales.market import open_market

    market, buyers = open_market(), []
    for number in range(ORGANISATIONS):
        organisation, user = Organisation.objects.create(name=f"O{number}", slug=f"o{number}"), person(f"buyer{number}")
        Membership.objects.create(user=user, organisation=organisation, role=Role.OWNER)
        buyers.append((organisation, user, market.program(organisation, user)))
    return Scene(market, buyers, timezone.now(), dice)


def _pool(scene: Scene, devices: int, windows: int) -> Pool:
    """A pool of its own whose devices are sold as the text above says."""
    from django.db import connection
    from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

    from apps.fleet.models import Device, Pool
    from apps.timetable.models import Reservation, Window

    like, name = scene.market.lpu, f"pool-{uuid4().hex[:8]}"
    pool = Pool.objects.create(
        slug=name,
        name=name,
        kind=like.kind,
        processor=like.processor,
        processor_class=like.processor_class,
        site=like.site,
        created_at=like.created_at,
    )
    sold = Reservation.objects.create(
        contract_id=uuid4(), organisation=scene.buyers[0][0], pool=pool, klass="standard", created_at=scene.now
    )
    rows = []
    for device in Device.objects.bulk_create(Device(pool=pool, name=f"d{number}") for number in range(devices)):
        at = scene.now
        for _ in range(windows // devices):
            end = at + timedelta(seconds=scene.dice.uniform(60, 600))
            rows.append(Window(reservation=sold, device=device, period=DateTimeTZRange(at, end, "[)")))
            at = end + (timedelta(seconds=scene.dice.uniform(30, 300)) if scene.dice.random() < 0.2 else timedelta())
    scene.dice.shuffle(rows)
    Window.objects.bulk_create(rows, batch_size=2_000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return pool


def _quotes(
    scene: Scene, pool: Pool, buyer: int, count: int, *, kinds: int, from_now: bool, stretch: timedelta
) -> list[UUID]:
    """`count` quotes of one buyer: the service makes `kinds` of them, the others are copies of those."""
    from apps.sales.models import Quote
    from apps.sales.services import quote_create

    organisation, user, program = scene.buyers[buyer]
    made: list[Quote] = []
    for number in range(min(kinds, count)):
        start = scene.now if from_now or number % 2 else scene.now + scene.dice.random() * stretch
        made.append(
            quote_create(
                organisation=organisation,
                lines=[(program, scene.dice.randrange(10, 1_200) * 10_000)],
                klass="standard",
                pool=pool,
                window=(start, scene.now + timedelta(days=DAYS)),
                actor=user,
                now=scene.now,
            )
        )
    copies = [_copy(made[number % kinds]) for number in range(kinds, count)]
    Quote.objects.bulk_create(copies)
    return [quote.pk for quote in (*made, *copies)]


def _copy(quote: Quote) -> Quote:
    from apps.accounts.counters import number_next
    from apps.sales.models import Quote

    row = {one.attname: getattr(quote, one.attname) for one in quote._meta.concrete_fields}
    number = number_next(organisation_id=quote.organisation_id, kind=Quote.number_kind)
    return Quote(**row | {"id": uuid4(), "number": number})


@dataclass
class Spent:
    """Seconds of each acceptance in one process with its processor time, and the processor time of all of them."""

    took: list[float]
    ran: list[float]  # here and in the session
    client: float
    server: float
    began: float
    ended: float


def _accepted(work: Sequence[tuple[UUID, UUID]]) -> Spent:
    """Accepts quotes (with their organisations) one after another, timed."""
    from django.db import connection
    from django.utils import timezone

    from apps.accounts.models import Organisation
    from apps.sales.services import quote_accept

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (session,) = cursor.fetchone()
    organisations = {one.pk: one for one in Organisation.objects.all()}
    client, server, began = time.process_time(), _processor_time(session), time.monotonic()
    took, ran = [], []
    for quote_id, organisation_id in work:
        run = time.process_time() + _processor_time(session)
        at = time.perf_counter()
        quote_accept(quote_id=quote_id, organisation=organisations[organisation_id], actor=None, now=timezone.now())
        took.append(time.perf_counter() - at)
        ran.append(time.process_time() + _processor_time(session) - run)
    ended = time.monotonic()
    return Spent(took, ran, time.process_time() - client, _processor_time(session) - server, began, ended)


def _processor_time(process: int) -> float:
    """Seconds of processor time of another process so far (Linux)."""
    return int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9


def _machine() -> tuple[float, float]:
    """Seconds that all cores were busy so far, and the clock (Linux)."""
    fields = [int(one) for one in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    return (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK"), time.monotonic()


def _others(before: tuple[float, float], own: float) -> str:
    """How many cores others kept busy since then."""
    busy, at = _machine()
    cores = max(0.0, busy - before[0] - own) / (at - before[1])
    return f"{cores:.1f} of {os.cpu_count()} cores busy with other work"


def _at(took: Sequence[float], share: float) -> float:
    return sorted(took)[min(len(took) - 1, int(share * len(took)))]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:6.1f}ms"


def _cells(scene: Scene, size: Size) -> float:
    """The p99 of the pool that is judged, in seconds."""
    judged = 0.0
    print(
        "devices windows  accepted      p50      p99  slowest   of it processor time: p50      p99  (mean here + session)"
    )
    for devices, windows in size.cells:
        for title, count, way in (("", size.singly, nullcontext), ("before", size.before, as_it_was)):
            if title and (devices, windows) != MAIN:
                continue
            pool = _pool(scene, devices, windows)
            work = _work(scene, pool, count, buyers=1, from_now=False)
            machine = _machine()
            with way():
                _accepted(work[:5])
                spent = _accepted(work[5:])
            p99 = _at(spent.took, 0.99)
            judged = max(judged, p99) if not title and (devices, windows) == MAIN else judged
            print(
                f"{devices:7} {windows:7,} {len(spent.took):9,} {_ms(_at(spent.took, 0.5))} {_ms(p99)} {_ms(max(spent.took))} "
                f"{'':20} {_ms(_at(spent.ran, 0.5))} {_ms(_at(spent.ran, 0.99))}  ({spent.client / len(spent.took) * 1e3:.1f} + "
                f"{spent.server / len(spent.took) * 1e3:.1f})  {title}  {_others(machine, spent.client + spent.server)}",
                flush=True,
            )
            scene.wrong += faults(pool, work)
    return judged


def _work(scene: Scene, pool: Pool, count: int, *, buyers: int, from_now: bool) -> list[tuple[UUID, UUID]]:
    """Quotes with their organisations, in random order, five more than asked for where one buyer warms up."""
    from django.db.models import Max
    from django.db.models.functions import Upper

    from apps.timetable.models import Window

    last = Window.objects.filter(device__pool=pool).aggregate(last=Max(Upper("period")))["last"]
    each = count // buyers + (5 if buyers == 1 else 0)
    work = [
        (quote, scene.buyers[buyer][0].pk)
        for buyer in range(buyers)
        for quote in _quotes(
            scene, pool, buyer, each, kinds=KINDS // buyers, from_now=from_now, stretch=last - scene.now
        )
    ]
    scene.dice.shuffle(work)
    return work


def _raced(scene: Scene, size: Size, *, from_now: bool) -> float:
    """Accepted per second by all processes."""
    demand = "all from now on" if from_now else "half from now on, half later"
    rates = []
    for title, way, share in (("", "is", 1), (", all devices locked as before", "was", 4)):
        pool = _pool(scene, *MAIN)
        work = _work(scene, pool, size.together // share, buyers=ORGANISATIONS, from_now=from_now)
        machine = _machine()
        spent = _together(_crew, [(work[number::PROCESSES], way) for number in range(PROCESSES)], scene)
        took = [one for each in spent for one in each.took]
        seconds = max(one.ended for one in spent) - min(one.began for one in spent)
        own = sum(one.client + one.server for one in spent)
        rates.append(len(took) / seconds)
        print(
            f"{PROCESSES} processes, {ORGANISATIONS} organisations, {demand}{title}: {rates[-1]:.1f} accepted per second "
            f"({len(took):,} in {seconds:.1f} s; p50 {_at(took, 0.5) * 1e3:.0f} ms, p99 {_at(took, 0.99) * 1e3:.0f} ms; "
            f"{own / len(took) * 1e3:.1f} ms of processor time each, enough for "
            f"{(os.cpu_count() or 1) * len(took) / own:.0f} per second; {_others(machine, own)})",
            flush=True,
        )
        scene.wrong += faults(pool, work)
    print(f"  {rates[0] / rates[1]:.1f} times as many as before")
    if not from_now:
        machine = _machine()
        _bare_table()
        commits = _together(_commits, [(size.commits, "") for _ in range(PROCESSES)], scene)
        seconds = max(one.ended for one in commits) - min(one.began for one in commits)
        own = sum(one.client + one.server for one in commits)
        print(
            f"bare commits: {size.commits * PROCESSES / seconds:,.0f} per second ({_others(machine, own)})", flush=True
        )
    return rates[0]


def _bare_table() -> None:
    """Made once, before the processes start: two that make it at the same instant would collide."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE bare (id bigserial PRIMARY KEY, said text)")


def _together(work: Callable[..., None], parts: Sequence[tuple[Any, str]], scene: Scene) -> list[Spent]:
    from django.db import connections

    connections.close_all()  # each process opens its own
    context = multiprocessing.get_context("fork")  # setting Django up in each costs more than what is measured
    start, results = context.Barrier(len(parts)), context.Queue()
    crew = [context.Process(target=work, args=(*part, start, results)) for part in parts]
    for one in crew:
        one.start()
    answers = [results.get(timeout=900) for _ in crew]
    for one in crew:
        one.join()
    scene.wrong += [one for one in answers if isinstance(one, str)]
    return [one for one in answers if isinstance(one, Spent)]


def _crew(work: list[tuple[UUID, UUID]], way: str, start: Any, results: Any) -> None:
    try:
        with as_it_was() if way == "was" else nullcontext():
            _accepted(work[:2])  # what a process does once is not what is timed
            start.wait(300)
            results.put(_accepted(work[2:]))
    except BaseException as error:  # noqa: BLE001 - what breaks is part of the answer
        start.abort()
        results.put(f"broken: {error!r}")


def _commits(count: int, _: str, start: Any, results: Any) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (session,) = cursor.fetchone()
        start.wait(300)
        client, server, began = time.process_time(), _processor_time(session), time.monotonic()
        for _number in range(count):
            cursor.execute("INSERT INTO bare (said) VALUES ('x')")
    ended = time.monotonic()
    results.put(Spent([], [], time.process_time() - client, _processor_time(session) - server, began, ended))


def _judge(scene: Scene, p99: float, rate: float) -> int:
    for one in scene.wrong[:20]:
        print(f"  WRONG: {one}")
    print(
        f"p99 with {MAIN[0]} devices and {MAIN[1]:,} windows: {p99 * 1e3:.1f} ms, less than {P99 * 1e3:.0f} is asked for"
    )
    print(f"the slower race: {rate:.1f} accepted per second, {RATE:.0f} are asked for")
    print(f"sold twice, or otherwise wrong = {len(scene.wrong)}")
    return 1 if scene.wrong or p99 >= P99 or rate < RATE else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
