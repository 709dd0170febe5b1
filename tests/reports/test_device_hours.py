"""Device time kept by hours: always the sum of its leases, whatever period is asked for, and a difference is named."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime, timedelta
from fractions import Fraction

import pytest
from django.db import connection

from apps.dispatch.models import DeviceHour, Lease, LeaseState
from apps.ledger.models import UsageRow
from apps.reports import margin
from apps.reports.device_hour_check import device_hour_faults
from apps.reports.reconciling import organisation_compare
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.sales.market import NOW, open_market

MONTH = NOW.replace(day=1, hour=0, minute=0)


def ran_by_leases(start: datetime, end: datetime) -> Fraction:
    """Seconds that simulated leases ran within [start, end), each cut by itself from its exact cycles."""
    total = Fraction(0)
    for lease in Lease.objects.filter(state=LeaseState.DONE).select_related("window", "stage"):
        clock = lease.stage.clock_hz
        begin = Fraction((lease.window.start - start) // timedelta(microseconds=1), 10**6) + Fraction(
            lease.first_cycle, clock
        )
        ends = begin + Fraction(lease.next_cycle - lease.first_cycle, clock)
        total += max(min(ends, margin.seconds_of(end - start)) - max(begin, Fraction(0)), Fraction(0))
    return total


def ran(start: datetime, end: datetime) -> Fraction:
    time = margin.device_time(start=start, end=end, currency="EUR")
    parts = [sum((one.ran.seconds for one in time.pools), Fraction(0))]
    parts += [sum((one.seconds for one in some.values()), Fraction(0)) for some in (time.by_class, time.by_customer)]
    assert len(set(parts)) == 1
    return parts[0]


@pytest.fixture(scope="module")
def day(shared_cast: Cast) -> Scene:
    made = Scene(open_market(devices=2), shared_cast)
    for klass in ("standard", "priority"):
        made.run(made.job(made.contract((made.program(), 20), klass=klass), 20))
    return made


@pytest.fixture
def scene(day: Scene, db: None) -> Scene:
    return deepcopy(day)


@pytest.mark.django_db
def test_a_month_reads_hours_and_no_lease(scene: Scene) -> None:
    before = ran(MONTH, MONTH + timedelta(days=60))
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE dispatch_lease SET state = 'revoked'")
        cursor.execute("SET session_replication_role = DEFAULT")
    assert ran(MONTH, MONTH + timedelta(days=60)) == before > 0


@pytest.mark.django_db
def test_a_lease_that_is_done_no_more_is_taken_out(scene: Scene) -> None:
    Lease.objects.filter(stage__job__contract__klass="priority").update(state=LeaseState.REVOKED)
    assert dict(DeviceHour.objects.values_list("klass", "leases")).get("priority") == 0
    assert ran(MONTH, MONTH + timedelta(days=60)) == ran_by_leases(MONTH, MONTH + timedelta(days=60))
    assert device_hour_faults(scene.cast.organisation.pk, limit=9) == []


@pytest.mark.django_db
def test_device_time_counts_to_the_class_that_was_served(scene: Scene) -> None:
    assert set(UsageRow.objects.values_list("klass", flat=True)) == {"standard", "priority"}
    assert set(DeviceHour.objects.values_list("klass", flat=True)) == {"standard", "priority"}


@pytest.mark.django_db
@pytest.mark.parametrize("change", ["cycles = cycles + 1", "leases = leases + 1", "klass = 'batch'", "until = hour"])
def test_an_hour_that_is_not_the_sum_of_its_leases_is_named(scene: Scene, change: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE dispatch_devicehour SET {change} WHERE klass = 'priority'")  # noqa: S608 - the changes stand above
    found = organisation_compare(scene.cast.organisation).differences
    said = "class priority on lpu-a, is not the sum of its leases"
    assert [one for one in found if said in one] != []


@pytest.mark.django_db
def test_leases_of_the_release_before_are_added_up_when_the_table_comes(scene: Scene) -> None:
    from importlib import import_module

    fill = import_module("apps.dispatch.migrations.0006_device_hours").FILL
    columns = ("hour", "pool_id", "organisation_id", "klass", "clock_hz", "cycles", "leases", "until")
    kept = sorted(DeviceHour.objects.values_list(*columns))
    DeviceHour.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute(fill)
    assert sorted(DeviceHour.objects.values_list(*columns)) == kept != []
