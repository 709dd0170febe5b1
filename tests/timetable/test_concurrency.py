"""Nothing is sold twice, however many ask at once: real threads and real processes on one PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest
from django.conf import settings
from django.db import connection, transaction

from apps.fleet.models import Pool
from apps.timetable import locking, services
from apps.timetable.models import Window
from tests.cast import Cast
from tests.fleet.pools import pool_make
from tests.tiers import WHOLE

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[2]

CUSTOMER = """
import sys, uuid
from datetime import datetime, timedelta
from fractions import Fraction
import django; django.setup()
from apps.fleet.models import Pool
from apps.timetable import services
organisation, now, tries = sys.argv[1], datetime.fromisoformat(sys.argv[2]), int(sys.argv[3])
pool = Pool.objects.get()
got = 0
for _ in range(tries):
    try:
        services.reservation_take(contract_id=uuid.uuid4(), organisation_id=uuid.UUID(organisation), pool=pool,
            duration=Fraction(600), not_before=now, not_after=now + timedelta(hours=1), klass="standard", now=now)
        got += 1
    except services.CapacityTaken:
        pass
print(got)
"""


def no_window_overlaps() -> bool:
    rows = Window.objects.filter(state="active").order_by("device_id", "period")
    return all(one.device_id != two.device_id or one.end <= two.start for one, two in pairwise(rows))


def take_in_thread(organisation_id: uuid.UUID, pool: Pool) -> bool:
    try:
        services.reservation_take(
            contract_id=uuid.uuid4(),
            organisation_id=organisation_id,
            pool=pool,
            duration=Fraction(1800),
            not_before=NOW,
            not_after=NOW + timedelta(minutes=30),
            klass="standard",
            now=NOW,
        )
    except services.CapacityTaken:
        return False
    finally:
        connection.close()
    return True


def test_of_many_threads_that_want_the_last_window_one_gets_it(transactional_db: None, cast: Cast) -> None:
    pool = pool_make("lpu-a", devices=1, now=NOW)
    with ThreadPoolExecutor(24) as crowd:
        won = list(crowd.map(lambda _: take_in_thread(cast.organisation.pk, pool), range(48)))
    assert sum(won) == 1
    assert Window.objects.count() == 1


def test_processes_that_buy_at_once_share_the_hour_without_overlap(transactional_db: None, cast: Cast) -> None:
    pool_make("lpu-a", devices=2, now=NOW)
    database = settings.DATABASES["default"]
    url = f"postgres://{database['USER']}@{quote(str(database['HOST']), safe='')}/{database['NAME']}"
    customers = 4 if WHOLE else 2
    command = [sys.executable, "-c", CUSTOMER, str(cast.organisation.pk), NOW.isoformat(), str(24 // customers)]
    environment = {**os.environ, "DATABASE_URL": url}
    crowd = [
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(customers)
    ]
    got = [int(one.communicate(timeout=60)[0]) for one in crowd]
    assert sum(got) == 12  # two devices, six windows of ten minutes each
    assert Window.objects.count() == 12
    assert no_window_overlaps()


@pytest.mark.django_db
def test_a_busy_pool_is_said_to_be_busy(monkeypatch: pytest.MonkeyPatch, transactional_db: None, cast: Cast) -> None:
    pool = pool_make("lpu-a", devices=1, now=NOW)
    monkeypatch.setattr(locking, "LOCK_TIMEOUT", "50ms")
    with transaction.atomic():
        services.devices_lock(pool)
        with ThreadPoolExecutor(1) as other, pytest.raises(services.CapacityBusy, match="try again"):
            other.submit(take_in_thread, cast.organisation.pk, pool).result()
