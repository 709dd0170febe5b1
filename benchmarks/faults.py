"""Kills what may be killed: `python -m benchmarks.faults [--fork | --worker | --stack [FAULT ...] | --answers ...] [POINT ...]`.

Twenty-one places between execution, metering, posting, outbox, Stripe and its webhooks; at each a forked process and a real
Celery worker die by SIGKILL, then everything goes on. Last, the clock jumps amid a lease. After each the counts and sums
of what was executed, metered, posted, invoiced, paid and is at Stripe are printed, and every difference.

Then whole parts of a product of its own (`make run`): Valkey, PostgreSQL and web are killed, the storage is taken away and
the disk under all of them is filled (a tmpfs of 1.4 GB, where this account may mount one; else that row is skipped), each
while models are uploaded and compiled, contracts accepted, jobs run and invoices issued. Nothing may be lost, bought twice
or refused with anything but 503, and everything works again within 30 s without a hand.

`--answers`: each call to Stripe acts and its answer is lost, in all orders with what an administrator does to the invoice
meanwhile: 6,000 orders, or COUNT from number FIRST on (to go on where a run was broken off).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path

from benchmarks.arguments import parser
from benchmarks.outages import FAULTS
from benchmarks.outages import run as outages_run
from benchmarks.private import house

EVERY = 500  # orders of lost answers between two lines
JUMPS = (timedelta(days=-400), timedelta(hours=-1), timedelta(hours=1))


def main(arguments: list[str]) -> int:
    command = parser("faults", __doc__)
    command.add_argument("point", nargs="*", help="places to kill at (all, unless given)")
    only = command.add_mutually_exclusive_group()
    only.add_argument("--fork", action="store_true", help="forked processes only")
    only.add_argument("--worker", action="store_true", help="Celery workers only")
    only.add_argument("--stack", nargs="*", choices=FAULTS, help="whole parts only: these, or all")
    only.add_argument(
        "--answers",
        nargs="*",
        type=int,
        metavar="COUNT FIRST",
        help="lost answers of Stripe only: all 6,000 orders, or COUNT from number FIRST on",
    )
    options = command.parse_args(arguments)
    if options.answers is not None:
        if len(options.answers) > 2:
            command.error("--answers takes COUNT and FIRST at most")
        return _answers(*options.answers)
    if options.stack is not None:
        return _verdict(outages_run(options.stack or list(FAULTS)))
    with house(), tempfile.TemporaryDirectory() as folder:
        from apps.accounts.failpoints import POINTS

        for one in options.point:
            if one not in POINTS:
                raise SystemExit(f"there is no point {one!r}; choose among {', '.join(POINTS)}")
        points = options.point or list(POINTS)
        wrong: list[str] = []
        if not options.worker:
            wrong += _forked(points, Path(folder))
        if not options.fork:
            wrong += _worked(points, Path(folder))
    if not (options.fork or options.worker or options.point):
        wrong += outages_run(list(FAULTS))
    return _verdict(wrong)


def _verdict(wrong: list[str]) -> int:
    print(f"{len(wrong)} differences" if wrong else "every difference 0")
    return 1 if wrong else 0


def _answers(count: int | None = None, first: int = 0) -> int:
    """Each call of a push, lost in each way, before or after its key is forgotten; what an administrator does then, before,
    between and after the scheduler's turns. `count` of these orders from number `first` on."""
    misses: dict[str, int] = {}
    begun = time.monotonic()
    with house():
        from benchmarks.stripe import quiet
        from tests.cast import assemble
        from tests.stripe.orders import faults, orders
        from tests.stripe.stage import contract_for

        cast = assemble()
        contract = contract_for(cast)
        with quiet():
            some = islice(orders(), first, None if count is None else first + count)
            for number, order in enumerate(some, 1):
                wrong = faults(cast, contract, order)
                name = f"{order.call} {order.loss} x {order.change}"
                misses[name] = misses.get(name, 0) + bool(wrong)
                for sentence in wrong:
                    print(f"WRONG: {sentence}", flush=True)
                if number % EVERY == 0:
                    print(f"{number:,} orders, {time.monotonic() - begun:.0f} s", flush=True)
    for name, count in misses.items():
        print(f"{name:60s} {'difference 0' if not count else f'{count} WRONG'}", flush=True)
    print(f"{sum(misses.values())} differences" if any(misses.values()) else "every difference 0")
    return 1 if any(misses.values()) else 0


@contextmanager
def _emptied() -> Iterator[None]:
    """Nobody takes the messages of the forked processes, nor what a worker leaves."""
    from apps.config.celery import app

    yield
    with app.connection_for_write() as broker, broker.channel() as channel:
        channel.client.flushdb()


def _forked(points: list[str], folder: Path) -> list[str]:
    from django.utils import timezone

    from tests.cast import assemble
    from tests.dispatch.scene import Scene
    from tests.faults.mortal import killed_at
    from tests.faults.works import Works, collector, dear, differences
    from tests.sales.market import open_market

    wrong = []
    with collector() as (store, _), _emptied():
        works = Works.opened(Scene(open_market(devices=2, change=dear), assemble(), timezone.now()), store)
        for point in points:
            works.begin()
            died = killed_at(point, works.forward, marker=folder / f"fork {point}")
            works.recover()
            wrong += _told("process", point, works, differences(works) if died else [f"nothing passes {point}"])
        for jump in JUMPS:
            _jump(works, jump)
            wrong += _told("clock", str(jump), works, differences(works))
    return wrong


def _worked(points: list[str], folder: Path) -> list[str]:
    """In a house of its own, so that the two know nothing of one another's jobs."""
    from django.conf import settings
    from django.core.management import call_command
    from django.db import connection
    from django.utils import timezone

    from tests.cast import assemble
    from tests.dispatch.scene import Scene
    from tests.faults.crews import Crewed
    from tests.faults.works import Works, collector, dear
    from tests.sales.market import open_market
    from tests.workers import Crew

    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    call_command("migrate", verbosity=0)
    crew = Crew(database=connection.settings_dict, media=settings.MEDIA_ROOT)
    wrong = []
    with collector() as (store, named), _emptied():
        past = timezone.now() - timedelta(hours=20)
        works = Works.opened(Scene(open_market(devices=2, change=dear), assemble(), past), store)
        try:
            crewed = Crewed(works, crew, named)
            for point in points:
                wrong += _told("worker", point, works, crewed.survive(point, folder / f"worker {point}"))
        finally:
            crew.stop()
    return wrong


def _jump(works: object, jump: timedelta) -> None:
    """The second reading of the clock, and every later one of the same lease, is `jump` off."""
    from apps.dispatch import services
    from apps.dispatch.execution import lease_execute
    from apps.dispatch.models import Lease, LeaseState
    from tests.faults.works import Works

    assert isinstance(works, Works)
    works.begin()
    now = works.scene.now
    readings = iter([now])

    def jumping() -> datetime:
        return next(readings, now + jump)

    services.leases_offer_due(now=now)
    for lease in Lease.objects.filter(state=LeaseState.OFFERED).order_by("device_from"):
        lease_execute(lease_id=lease.pk, epoch=lease.epoch, host="here", clock=jumping)
    works.scene.pass_time(hours=1)
    works.forward()
    works.forward()


def _told(who: str, point: str, works: object, wrong: list[str]) -> list[str]:
    from tests.faults.works import Works, totals

    assert isinstance(works, Works)
    print(f"{who:7s} {point:22s} {'difference 0' if not wrong else 'WRONG: ' + '; '.join(wrong)}", flush=True)
    print(f"        {totals(works)}", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
