"""Kills a process at every place that money passes: `python -m benchmarks.faults [--fork | --worker] [POINT ...]`.

Twenty places between execution, metering, posting, outbox, Stripe and its webhooks; at each a forked process and a real
Celery worker die by SIGKILL, then everything goes on. Last, the clock jumps amid a lease. After each the counts and sums
of what was executed, metered, posted, invoiced, paid and is at Stripe are printed, and every difference.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from benchmarks.arguments import parser
from benchmarks.private import house

JUMPS = (timedelta(days=-400), timedelta(hours=-1), timedelta(hours=1))


def main(arguments: list[str]) -> int:
    command = parser("faults", __doc__)
    command.add_argument("point", nargs="*", help="places to kill at (all, unless given)")
    only = command.add_mutually_exclusive_group()
    only.add_argument("--fork", action="store_true", help="forked processes only")
    only.add_argument("--worker", action="store_true", help="Celery workers only")
    options = command.parse_args(arguments)
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
    print(f"{len(wrong)} differences" if wrong else "every difference 0")
    return 1 if wrong else 0


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
