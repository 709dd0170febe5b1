"""Taking, replacing and giving back device time on a real PostgreSQL."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from django.db import IntegrityError, transaction
from django.db.backends.postgresql.psycopg_any import DateTimeTZRange

from apps.fleet.models import Pool
from apps.fleet.selectors import devices_of
from apps.timetable import selectors, services
from apps.timetable.models import Refusal, Reservation, Window, WindowState
from tests.cast import Cast
from tests.fleet.pools import pool_make

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def pool(db: None) -> Pool:
    return pool_make("lpu-a", devices=2, now=NOW)


def take(
    cast: Cast, pool: Pool, seconds: str, *, until: timedelta = HOUR, now: datetime = NOW, **more: object
) -> Reservation:
    return services.reservation_take(
        contract_id=uuid.uuid4(),
        organisation_id=cast.organisation.pk,
        pool=pool,
        duration=Fraction(seconds),
        not_before=NOW,
        not_after=NOW + until,
        klass="standard",
        now=now,
        **more,  # type: ignore[arg-type]
    )


def test_a_window_is_rounded_up_to_whole_microseconds(cast: Cast, pool: Pool) -> None:
    (window,) = take(cast, pool, "1/900000").windows.all()
    assert window.start == NOW
    assert window.end - window.start == timedelta(microseconds=2)


def test_the_first_fit_uses_a_free_device_before_it_waits(cast: Cast, pool: Pool) -> None:
    first, second, third = (take(cast, pool, "600").windows.get() for _ in range(3))
    assert first.device_id != second.device_id
    assert first.start == second.start == NOW
    assert third.start == NOW + timedelta(seconds=600)


def test_what_does_not_fit_is_refused_with_where_it_would(cast: Cast, pool: Pool) -> None:
    for _ in range(2):
        take(cast, pool, "3600")
    with pytest.raises(services.CapacityTaken, match="lpu-a has no free window") as refused:
        take(cast, pool, "1800")
    assert [(one.pool, one.start) for one in refused.value.alternatives] == [("lpu-a", NOW + HOUR)]
    assert Reservation.objects.count() == 2


def test_a_sibling_pool_of_the_same_processor_version_is_offered(cast: Cast, pool: Pool) -> None:
    pool_make("lpu-c", devices=1, now=NOW)
    pool_make("lpu2-b", devices=1, now=NOW, target="lpu2")
    for _ in range(2):
        take(cast, pool, "3600")
    with pytest.raises(services.CapacityTaken) as refused:
        take(cast, pool, "1800")
    assert [one.pool for one in refused.value.alternatives] == ["lpu-c", "lpu-a"]


def test_allowed_time_is_kept_and_the_cheapest_is_tried_first(cast: Cast, pool: Pool) -> None:
    allowed = [(NOW, NOW + HOUR / 2, 1), (NOW + HOUR / 2, NOW + HOUR, 0)]
    window = take(cast, pool, "600", allowed=allowed).windows.get()
    assert window.start == NOW + HOUR / 2


def test_work_that_may_be_split_fills_what_is_left(cast: Cast, pool: Pool) -> None:
    for device_hours in ("2700", "2700"):
        take(cast, pool, device_hours)
    with pytest.raises(services.CapacityTaken):
        take(cast, pool, "1500")
    split = take(cast, pool, "1500", quantum=Fraction(1), setup=Fraction(0), windows_max=4)
    lengths = [window.end - window.start for window in split.windows.all()]
    assert sum(lengths, timedelta()) == timedelta(seconds=1500)
    assert len(lengths) == 2


def test_the_database_refuses_a_second_sale_whoever_asks(cast: Cast, pool: Pool) -> None:
    window = take(cast, pool, "600").windows.get()
    overlapping = DateTimeTZRange(window.end - timedelta(microseconds=1), window.end + HOUR, "[)")
    with pytest.raises(IntegrityError, match="window_never_sold_twice"), transaction.atomic():
        Window.objects.create(reservation=window.reservation, device=window.device, period=overlapping)
    touching = DateTimeTZRange(window.end, window.end + HOUR, "[)")
    Window.objects.create(reservation=window.reservation, device=window.device, period=touching)


def test_given_back_time_is_free_again_and_used_time_is_not(cast: Cast, pool: Pool) -> None:
    running, later = take(cast, pool, "1800"), take(cast, pool, "1800")
    Window.objects.filter(reservation=later).update(period=DateTimeTZRange(NOW + HOUR, NOW + 2 * HOUR, "[)"))
    halfway = NOW + HOUR / 4
    for reservation in (running, later, later):
        services.reservation_release(reservation_id=reservation.pk, now=halfway)
    assert running.windows.get(state=WindowState.ACTIVE).end == halfway
    released = running.windows.get(state=WindowState.RELEASED)  # what was reserved stays readable
    assert (released.start, released.end) == (halfway, NOW + HOUR / 2)
    slots = selectors.slots_free(devices_of(pool), NOW, NOW + 2 * HOUR, now=NOW)
    assert sorted((slot.end - slot.start) for slot in slots) == [2 * HOUR - HOUR / 4, 2 * HOUR]


def test_passed_windows_are_replaced_and_stay_in_the_books(cast: Cast, pool: Pool) -> None:
    reservation = take(cast, pool, "600")
    later = NOW + 2 * HOUR
    (window,) = services.reservation_replace(
        reservation_id=reservation.pk,
        duration=Fraction(600),
        not_before=later,
        not_after=later + HOUR,
        now=later,
    )
    assert window.start == later
    assert [one.start for one in selectors.windows_of(reservation.contract_id)] == [NOW, later]


def test_the_preview_takes_nothing_and_tells_what_would_be_taken(cast: Cast, pool: Pool) -> None:
    ask = {"pool": pool, "duration": Fraction(600), "not_before": NOW, "not_after": NOW + HOUR, "now": NOW}
    preview = selectors.reservation_preview(**ask)
    assert preview is not None
    assert Window.objects.count() == 0
    window = take(cast, pool, "600").windows.get()
    assert (preview[0].device.pk, preview[0].start, preview[0].end) == (window.device_id, window.start, window.end)
    assert selectors.reservation_preview(**{**ask, "duration": Fraction(3601)}) is None


def test_nothing_is_placed_in_the_past(cast: Cast, pool: Pool) -> None:
    later = NOW + HOUR / 2
    assert take(cast, pool, "60", now=later).windows.get().start == later
    with pytest.raises(services.CapacityTaken):
        take(cast, pool, "60", now=NOW + HOUR)


def test_a_refusal_is_remembered_with_its_reason(cast: Cast, pool: Pool) -> None:
    services.refusal_record(
        organisation_id=cast.organisation.pk,
        pool=pool,
        klass="standard",
        duration=Fraction(1, 3_000_000),
        reason="Pool lpu-a has no free window",
        now=NOW,
    )
    assert Refusal.objects.get().duration_us == 1


def test_locks_are_refused_outside_a_transaction_that_holds_them(transactional_db: None) -> None:
    pool = pool_make("lpu-a", devices=1, now=NOW)
    with pytest.raises(transaction.TransactionManagementError):
        services.devices_lock(pool)
