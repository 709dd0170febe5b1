from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from apps.pricing.grid import tariff_grid
from tests.pricing.rating.books import book


def test_a_week_has_a_cell_for_every_hour_and_says_which_are_off_peak() -> None:
    grid = tariff_grid(book=book(), zone="Europe/Berlin", now=datetime(2026, 11, 23, 9, 30, tzinfo=UTC))
    monday, saturday = grid.days[0], grid.days[5]
    assert [len(column) for column in monday.columns] == [1] * 24
    assert [hour for hour in range(24) if monday.columns[hour][0].off_peak] == [*range(7), 21, 22, 23]
    assert [hour for hour in range(24) if saturday.columns[hour][0].off_peak] == [*range(9), *range(18, 24)]
    assert [column[0].past for column in monday.columns] == [True] * 10 + [False] * 14
    assert grid.utc_offset == "UTC+01:00"


def test_the_day_on_which_clocks_change_is_noted() -> None:
    spring = tariff_grid(book=book(), zone="America/New_York", now=datetime(2026, 3, 8, 12, tzinfo=UTC)).days[0]
    autumn = tariff_grid(book=book(), zone="America/New_York", now=datetime(2026, 11, 1, 12, tzinfo=UTC)).days[0]
    assert (len(spring.columns[2]), len(autumn.columns[1])) == (0, 2)
    assert "23 hours" in spring.note
    assert "25 hours" in autumn.note


def test_an_hour_that_is_off_peak_in_part_says_so() -> None:
    grid = tariff_grid(book=book(), zone="Asia/Kathmandu", now=datetime(2026, 11, 23, 0, tzinfo=UTC))
    assert {hour.period for day in grid.days for column in day.columns for hour in column} == {
        "peak",
        "off-peak",
        "partly off-peak",
    }


@given(
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"]),
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 6, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_the_cells_of_a_week_follow_each_other_without_a_gap(zone: str, now: datetime) -> None:
    grid = tariff_grid(book=book(), zone=zone, now=now)
    cells = sorted((h for day in grid.days for column in day.columns for h in column), key=lambda h: h.start)
    for left, right in pairwise(cells):
        assert left.end == right.start
    assert timedelta(hours=166) <= cells[-1].end - cells[0].start <= timedelta(hours=170)
