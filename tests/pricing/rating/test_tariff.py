from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.pricing.rating import Holiday, Period, RatingError, Tariff, intersect, merge
from tests.pricing.rating.books import book

_PERIODS = (Period("peak", off_peak=False), Period("night", off_peak=True))
_NIGHT_ROW = (1,) * 6 + (0,) * 18


def _nights(zone: str, holidays: tuple[Holiday, ...] = ()) -> Tariff:
    """Off-peak from 00 to 06 local on every day; holidays and weekends off-peak all day."""
    return Tariff(zone, _PERIODS, (_NIGHT_ROW,) * 12, ((1,) * 24,) * 12, holidays)


def _hours(tariff: Tariff, day: date) -> list[timedelta]:
    zone = ZoneInfo(tariff.zone)
    start = datetime(day.year, day.month, day.day, tzinfo=zone)
    after = day + timedelta(days=1)
    end = datetime(after.year, after.month, after.day, tzinfo=zone)
    return [right - left for left, right in tariff.intervals(start.astimezone(UTC), end.astimezone(UTC))]


def test_a_new_york_night_is_five_six_or_seven_hours_long() -> None:
    every_day = Tariff("America/New_York", _PERIODS, (_NIGHT_ROW,) * 12, (_NIGHT_ROW,) * 12, ())
    lengths = {}
    for number in range(365):
        day = date(2026, 1, 1) + timedelta(days=number)
        (length,) = _hours(every_day, day)
        lengths.setdefault(length, []).append(day)
    assert lengths[timedelta(hours=5)] == [date(2026, 3, 8)]
    assert lengths[timedelta(hours=7)] == [date(2026, 11, 1)]
    assert len(lengths[timedelta(hours=6)]) == 363


def test_the_longest_and_the_shortest_day_are_off_peak_for_as_long_as_they_last() -> None:
    tariff = _nights("Europe/Berlin")
    assert _hours(tariff, date(2026, 3, 29)) == [timedelta(hours=23)]  # Sundays
    assert _hours(tariff, date(2026, 10, 25)) == [timedelta(hours=25)]


def test_a_holiday_is_treated_like_a_weekend() -> None:
    tariff = _nights("Europe/Berlin", (Holiday(date(2026, 12, 25), "Christmas Day"),))
    assert _hours(tariff, date(2026, 12, 24)) == [timedelta(hours=6)]
    assert _hours(tariff, date(2026, 12, 25)) == [timedelta(hours=24)]


zones = st.sampled_from(
    [
        "UTC",
        "Europe/Berlin",
        "America/New_York",
        "Asia/Kathmandu",
        "Pacific/Chatham",
        "Australia/Lord_Howe",
        "Asia/Kolkata",
    ]
)
instants = st.datetimes(datetime(2025, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(zones, instants, st.integers(1, 60 * 24 * 3), st.lists(st.integers(0, 60 * 24 * 3), max_size=20))
def test_intervals_hold_exactly_the_off_peak_instants(
    zone: str, start: datetime, minutes: int, probes: list[int]
) -> None:
    tariff, end = _nights(zone), start + timedelta(minutes=minutes)
    off_peak, peak = tariff.intervals(start, end), tariff.intervals(start, end, off_peak=False)
    assert merge(off_peak + peak) == [(start, end)]
    assert intersect(off_peak, peak) == []
    for left, right in off_peak:
        assert left < right
    for probe in probes:
        instant = start + timedelta(minutes=probe)
        if instant < end:
            assert any(left <= instant < right for left, right in off_peak) == tariff.is_off_peak(instant)


@given(zones, instants)
def test_an_instant_has_one_period_whatever_offset_it_is_written_in(zone: str, instant: datetime) -> None:
    tariff = _nights(zone)
    assert tariff.period_at(instant) == tariff.period_at(instant.astimezone(ZoneInfo("Asia/Tokyo")))


interval = st.tuples(instants, st.integers(0, 5000)).map(lambda p: (p[0], p[0] + timedelta(minutes=p[1])))


@given(st.lists(interval, max_size=8), st.lists(interval, max_size=8), instants)
def test_intersection_is_both_and_merging_is_either(left: list, right: list, probe: datetime) -> None:
    def inside(intervals: list) -> bool:
        return any(start <= probe < end for start, end in intervals)

    assert inside(merge(left)) == inside(left)
    assert inside(intersect(merge(left), merge(right))) == (inside(left) and inside(right))


def test_a_naive_instant_and_an_endless_window_are_refused() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(RatingError, match="without a time zone"):
        book().tariff.intervals(start.replace(tzinfo=None), start)
    with pytest.raises(RatingError, match="choose a shorter one"):
        book().tariff.intervals(start, start + timedelta(days=4000))
