"""Taking time under a lock on the devices concerned alone: the placement is that of the whole timetable, others on other
devices do not wait, and what changes between the look and the lock is seen."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from apps.fleet.models import Device, DeviceState, Pool
from apps.fleet.selectors import devices_of
from apps.sales.services import quote_accept, quote_create
from apps.timetable import locking, services, taking
from apps.timetable.admission import Placement, free_between, intersect, merge, place, place_each
from apps.timetable.admission.intervals import Interval
from apps.timetable.instants import instant_of, micros_of
from apps.timetable.models import Reservation, Window
from apps.timetable.selectors import Demand, slots_free
from tests.cast import Cast, assemble
from tests.fleet.pools import pool_make
from tests.sales.market import NOW as TUESDAY
from tests.sales.market import open_market
from tests.tiers import some
from tests.timetable.test_admission import devices as free_time
from tests.timetable.test_admission import limits, points_of, works

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
BEGIN = micros_of(NOW)

stretches = st.lists(st.tuples(st.integers(-5, 55), st.integers(1, 20)), max_size=8)
spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 2)), max_size=4)
asked = st.tuples(
    st.integers(1, 40),
    st.integers(0, 30),
    st.integers(0, 70),
    st.none() | spans,
    st.integers(0, 3),
    st.sampled_from([None, Fraction(1), Fraction(5, 3)]),
)


def busy(cast: Cast, pool: Pool, device: Device, start: datetime, length: timedelta) -> None:
    """Sold already; where it is not free, cut to what is."""
    reservation, _ = Reservation.objects.get_or_create(
        organisation=cast.organisation,
        pool=pool,
        klass="standard",
        contract_id=cast.organisation.pk,
        defaults={"created_at": NOW},
    )
    for slot in slots_free([device], start, start + length, now=NOW):
        Window.objects.create(
            reservation=reservation, device=device, period=DateTimeTZRange(slot.start, slot.end, "[)")
        )


def take(cast: Cast, pool: Pool, minutes: int = 10, **more: Any) -> Window:
    """One window on the first free time of the pool."""
    limits = {"not_before": NOW, "not_after": NOW + DAY, "now": NOW} | more
    reservation = services.reservation_take(
        contract_id=uuid.uuid4(),
        organisation_id=cast.organisation.pk,
        pool=pool,
        duration=Fraction(60 * minutes),
        klass="standard",
        **limits,
    )
    return reservation.windows.get()


def elsewhere(work: Callable[[], object]) -> object:
    """What `work` returns, done by another session and committed."""

    def run() -> object:
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other:
        return other.submit(run).result(timeout=30)


@contextmanager
def held(device: Device) -> Iterator[None]:
    """Another session holds the device's lock meanwhile."""
    is_held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Device.objects.select_for_update(no_key=True).get(pk=device.pk)
            is_held.set()
            done.wait(30)
        connection.close()

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_held.wait(10)
    try:
        yield
    finally:
        done.set()
        thread.join()


class Placed(TestCase):
    """Over random timetables, volumes, limits, tariffs and windows."""

    @settings(max_examples=some(80), deadline=None)
    @given(st.lists(stretches, min_size=1, max_size=3), asked, st.sampled_from([(1,), (1, 3), (3,)]))
    def test_what_is_taken_is_the_placement_on_the_whole_timetable(
        self, sold: list[list[tuple[int, int]]], ask: tuple[Any, ...], windows: tuple[int, ...]
    ) -> None:
        cast, pool = assemble(), pool_make("lpu-a", devices=len(sold), now=NOW)
        for device, taken in zip(devices_of(pool), sold, strict=True):
            for start, length in taken:
                busy(cast, pool, device, NOW + timedelta(seconds=start), timedelta(seconds=length))
        duration, begin, end, allowed, setup, quantum = ask
        demand = Demand(
            Fraction(duration) + setup,
            NOW + timedelta(seconds=begin),
            NOW + timedelta(seconds=end),
            allowed
            and [(NOW + timedelta(seconds=min(a, b)), NOW + timedelta(seconds=max(a, b)), r) for a, b, r in allowed],
            Fraction(setup),
            quantum,
        )
        rows = Window.objects.values_list("device_id", "period")
        free = {
            str(device.pk): free_between(
                [Interval(micros_of(one.lower), micros_of(one.upper)) for pk, one in rows if pk == device.pk],
                BEGIN,
                BEGIN + 70 * 10**6,
            )
            for device in devices_of(pool)
        }
        tried = [demand._replace(windows_max=most) for most in windows]
        found = [place(one.work(), free, one.limits(now=NOW)) for one in tried]
        best = next((one for one in found if isinstance(one, Placement)), None)
        known = set(Window.objects.values_list("pk", flat=True))
        try:
            services.reservation_take_each(
                contract_id=uuid.uuid4(),
                organisation_id=cast.organisation.pk,
                pool=pool,
                demands=[demand],
                windows=windows,
                klass="standard",
                now=NOW,
            )
        except services.CapacityTaken:
            assert best is None
            return
        assert best is not None
        fresh = Window.objects.exclude(pk__in=known)
        assert {(str(one.device_id), one.start, one.end) for one in fresh} == {
            (piece.device, instant_of(piece.start), instant_of(piece.end)) for piece in best.windows
        }


@settings(max_examples=some(100))
@given(st.lists(st.tuples(works, limits), max_size=4), free_time)
def test_each_of_several_is_placed_in_what_those_before_it_left(
    asked: list[Any], free: dict[str, list[Interval]]
) -> None:
    left = dict(free)
    found = place_each([([work], [limit]) for work, limit in asked], free)
    assert len(found) == len(asked) or not isinstance(found[-1], Placement)
    for (work, limit), placed in zip(asked, found, strict=False):
        assert placed == place(work, left, limit)
        for piece in placed.windows if isinstance(placed, Placement) else ():
            points = points_of(left[piece.device]) - set(range(piece.start, piece.end))
            left[piece.device] = merge(Interval(point, point + 1) for point in points)
            assert not intersect(left[piece.device], [Interval(piece.start, piece.end)])


@pytest.fixture
def pool(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Pool:
    monkeypatch.setattr(locking, "LOCK_TIMEOUT", "200ms")
    return pool_make("lpu-a", devices=3, now=NOW)


def test_nobody_waits_for_a_device_that_is_not_taken(cast: Cast, pool: Pool) -> None:
    first, second, third = devices_of(pool)
    busy(cast, pool, first, NOW, timedelta(hours=1))
    with held(first):
        with held(second):
            window = take(cast, pool)
            assert window.device_id == third.pk, "of two that are as good the one that nobody holds"
            services.reservation_release(reservation_id=window.reservation_id, now=NOW)
            assert take(cast, pool, not_before=NOW + 2 * timedelta(hours=1)).device_id == third.pk
        busy(cast, pool, second, NOW, 2 * timedelta(hours=1))
        busy(cast, pool, third, NOW, timedelta(hours=2))
        late = take(cast, pool)
        assert late.device_id == second.pk, (
            "another sells time of the device on which it would end first: the next best"
        )
        assert late.start == NOW + 2 * timedelta(hours=1)
        services.reservation_release(reservation_id=late.reservation_id, now=NOW)
        with pytest.raises(services.CapacityBusy):
            take(cast, pool, not_after=NOW + timedelta(minutes=75))  # in that time it fits on no other, so it waits
    assert take(cast, pool).device_id == first.pk


def test_two_acceptances_on_different_devices_of_a_pool_do_not_wait_for_each_other(
    transactional_db: None, cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locking, "LOCK_TIMEOUT", "200ms")
    market = open_market(devices=2)
    buyers = [(cast.organisation, cast.engineer), (cast.stranger_organisation, cast.stranger)]
    quotes = [
        quote_create(
            organisation=organisation,
            lines=[(market.program(organisation, user), 3600 * 10_000)],
            klass="standard",
            pool=market.lpu,
            window=(TUESDAY, TUESDAY + DAY),
            actor=None,
            now=TUESDAY,
        )
        for organisation, user in buyers
    ]
    with transaction.atomic():
        quote_accept(quote_id=quotes[0].pk, organisation=cast.organisation, actor=None, now=TUESDAY)
        elsewhere(
            lambda: quote_accept(
                quote_id=quotes[1].pk, organisation=cast.stranger_organisation, actor=None, now=TUESDAY
            )
        )
    one, two = Window.objects.all()
    assert one.device_id != two.device_id
    assert one.start == two.start == TUESDAY


@pytest.mark.parametrize("lock", ["one_lock", "some_lock"])
def test_what_is_sold_between_the_look_and_the_lock_is_not_sold_again(
    cast: Cast, pool: Pool, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    more: dict[str, Any] = {} if lock == "one_lock" else {"windows_max": 2, "quantum": Fraction(600)}
    inner, sold = getattr(locking, lock), list[object]()

    def late(pool: Pool, devices: Any) -> Any:
        if len(sold) < 4:
            monkeypatch.setattr(taking, lock, inner)
            sold.append(elsewhere(lambda: take(cast, pool, **more)))
            monkeypatch.setattr(taking, lock, late)
        return inner(pool, devices)

    monkeypatch.setattr(taking, lock, late)
    window = take(cast, pool, **more)
    assert window.start == NOW + timedelta(minutes=10), "others were faster on each of the three devices"
    assert Window.objects.count() == len(sold) + 1 >= 4


def test_a_device_that_is_switched_off_between_the_look_and_the_lock_is_not_sold(
    cast: Cast, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = devices_of(pool)
    inner = locking.one_lock

    def late(pool: Pool, devices: Any) -> Any:
        elsewhere(lambda: Device.objects.filter(pk=first.pk).update(state=DeviceState.DRAINING))
        return inner(pool, devices)

    monkeypatch.setattr(taking, "one_lock", late)
    assert take(cast, pool).device_id == second.pk


def test_a_pool_that_changes_between_the_look_and_the_lock_is_not_sold(
    cast: Cast, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = locking.one_lock

    def late(pool: Pool, devices: Any) -> Any:
        elsewhere(lambda: Pool.objects.filter(pk=pool.pk).update(power_percent=50))
        return inner(pool, devices)

    monkeypatch.setattr(taking, "one_lock", late)
    with pytest.raises(services.PoolChanged):
        take(cast, pool)
    assert Window.objects.count() == 0


def test_only_the_devices_of_its_windows_are_locked_when_a_reservation_is_given_back(cast: Cast, pool: Pool) -> None:
    window = take(cast, pool)
    own, other = (Device.objects.get(pk=window.device_id), Device.objects.exclude(pk=window.device_id)[0])
    with held(own), pytest.raises(services.CapacityBusy):
        services.reservation_release(reservation_id=window.reservation_id, now=NOW)
    with held(other):
        services.reservation_release(reservation_id=window.reservation_id, now=NOW)
    assert not Window.objects.filter(state="active").exists()
