"""A contract's page sums its usage by local day; a day opens its rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import User
from apps.ledger.models import UsageRow
from apps.pricing.rating import exact_sum
from apps.sales.usage_days import (
    CHART_DAYS,
    UsageDay,
    day_bounds,
    day_read,
    usage_chart,
    usage_day_rows,
    usage_days,
    usage_total,
)
from tests.cast import Cast
from tests.sales.market import NOW, Market
from tests.sales.test_contracts import run, sold

AsUser = Callable[[User], Client]


@pytest.mark.django_db
def test_days_sum_to_what_was_used_and_open_their_rows(cast: Cast, market: Market) -> None:
    contract = sold(cast, market)
    for hours, executions in ((0, 10), (1, 20), (23, 5), (30, 7)):
        run(contract, executions, now=NOW + timedelta(hours=hours))
    rows = list(UsageRow.objects.filter(contract_id=contract.pk))
    for zone in ("UTC", "Pacific/Auckland", "America/New_York"):
        days = usage_days(contract, zone=zone)
        assert sum(day.executions for day in days) == 42
        assert usage_total(days) == exact_sum(row.amount for row in rows)
        assert [day.date for day in days] == sorted({day.date for day in days}, reverse=True)
        for day in days:
            opened = list(usage_day_rows(contract, day.date, zone=zone))
            assert len(opened) == day.rows
            assert exact_sum(row.amount for row in opened) == day.amount


@pytest.mark.django_db
def test_the_page_has_one_line_for_each_day(cast: Cast, market: Market, as_user: AsUser) -> None:
    contract, client = sold(cast, market), as_user(cast.owner)
    for minutes in range(5):
        run(contract, 10, now=NOW + timedelta(minutes=minutes))
    path, day = f"/contracts/{contract.pk}", NOW.date().isoformat()
    page = client.get(path).content.decode()
    assert page.count(f'href="?day={day}#usage-rows"') == 1
    assert "Usage on" not in page
    opened = client.get(path, {"day": day}).content.decode()
    assert f"Usage on {day}" in opened
    other = (NOW.date() - timedelta(days=9)).isoformat()
    assert f"No usage on {other}" in client.get(path, {"day": other}).content.decode()


@pytest.mark.django_db
@pytest.mark.parametrize(
    "text", ["", "-5", "0", "٢٠٢٦-11-30", "2026-02-30", "99999999999999999", "9999-12-31", "x" * 10_000]
)
def test_a_day_that_is_none_shows_the_contract_without_rows(
    cast: Cast, market: Market, as_user: AsUser, text: str
) -> None:
    contract = sold(cast, market)
    run(contract, 10)
    answer = as_user(cast.owner).get(f"/contracts/{contract.pk}", {"day": text})
    assert answer.status_code == 200
    assert 'usage-rows">' not in answer.content.decode().replace("#usage-rows", "")


@given(st.dates(date(1970, 1, 1), date(8999, 12, 30)), st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]))
def test_days_follow_each_other_without_a_gap(day: date, zone: str) -> None:
    start, end = day_bounds(day, zone)
    assert start.astimezone(UTC) < end.astimezone(UTC)
    assert day_bounds(day + timedelta(days=1), zone)[0] == end
    assert day_read(day.isoformat()) == day


def test_a_day_when_clocks_change_has_23_or_25_hours() -> None:
    lengths = []
    for day in (date(2026, 3, 29), date(2026, 10, 25)):
        start, end = (one.astimezone(UTC) for one in day_bounds(day, "Europe/Berlin"))
        lengths.append((end - start) / timedelta(hours=1))
    assert lengths == [23, 25]


def test_the_chart_shows_the_newest_days_in_order() -> None:
    newest = datetime(2026, 11, 30, tzinfo=UTC).date()
    days = [UsageDay(newest - timedelta(days=number), 1, 1, Decimal(number), 1) for number in range(CHART_DAYS + 5)]
    drawn = usage_chart(days, "EUR")
    assert drawn["categories"][-1] == "2026-11-30"
    assert len(drawn["categories"]) == CHART_DAYS
    assert drawn["series"][0]["values"][-1] == 0.0
