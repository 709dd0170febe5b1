"""When work could begin, and what it costs then: every hour agrees with the quote that it would make."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.sales.models import FormName, Quote
from apps.sales.services import Offer, QuoteLine, offer_make, quote_accept, quote_create
from apps.sales.start_times import start_times_cheapest
from apps.sales.templatetags.sales import less_or_more
from apps.sales.volumes import Form
from tests.cast import Cast
from tests.sales.market import NOW, Market, open_market

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)
AN_HOUR_OF_WORK = 3600 * 10_000


def _offer(cast: Cast, market: Market, program: Any, executions: int = 1_000_000, **asked: Any) -> Offer:
    asked = {"klass": "standard", "window": None, **asked}
    return offer_make(
        organisation=cast.organisation, lines=[QuoteLine(program, executions)], pool=market.lpu, now=NOW, **asked
    )


def _hourly(document: dict[str, Any]) -> None:
    document["classes"]["standard"]["time_of_use"] = True
    document["tariff"]["periods"][0]["factor"] = "1.25"
    document["tariff"]["periods"][1]["factor"] = "0.8"


def test_every_hour_says_what_the_quote_for_it_would_say(cast: Cast) -> None:
    """Of a tariff whose prices follow the hours, over 168 hours; a sample of them is quoted."""
    cast.organisation.time_zone = "Europe/Berlin"
    market = open_market(change=_hourly)
    program = market.program(cast.organisation, cast.engineer)
    offer = _offer(cast, market, program, 2 * AN_HOUR_OF_WORK)
    assert len(offer.starts) == 168
    assert {start.klass for start in offer.starts} == {"standard", "off_peak"}
    for start in offer.starts[::9]:
        window = (start.hour, start.window_end)
        again = _offer(cast, market, program, 2 * AN_HOUR_OF_WORK, klass=start.klass, window=window)
        assert again.priced.worst == start.amount, start
        assert again.document["reservation"][0]["start"] == start.to_json()["begins"]
        assert start.saving == 1 - Fraction(start.amount) / Fraction(offer.priced.worst)


def test_the_short_list_names_the_cheapest_hour_of_each_day(cast: Cast, market: Market) -> None:
    cast.organisation.time_zone = "Europe/Berlin"
    offer = _offer(cast, market, market.program(cast.organisation, cast.engineer))
    listed = offer.document["starts"]
    assert [one["start"] for one in listed[:2]] == ["2026-11-24T20:00:00Z", "2026-11-24T23:00:00Z"]
    assert {(one["klass"], one["share"], one["amount"]) for one in listed} == {("off_peak", "3/5", "3.3792")}
    assert start_times_cheapest([], zone="UTC") == []
    cheap = _offer(cast, market, market.program(cast.organisation, cast.engineer), klass="batch")
    assert "starts" not in cheap.document


def test_an_hour_without_room_is_left_out(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    taken = quote_create(
        organisation=cast.organisation,
        lines=[QuoteLine(program, 5 * AN_HOUR_OF_WORK)],
        klass="standard",
        pool=market.lpu,
        window=(NOW, NOW + timedelta(days=1)),
        actor=None,
        now=NOW,
    )
    quote_accept(quote_id=taken.id, organisation=cast.organisation, actor=None, now=NOW)
    hours = [start.hour for start in _offer(cast, market, program).starts]
    end = datetime.fromisoformat(taken.document["reservation"][0]["end"])
    assert min(hours) + HOUR > end > min(hours)


def test_work_longer_than_a_night_is_cut_and_still_begins_there(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    offer = _offer(cast, market, program, 20 * AN_HOUR_OF_WORK)
    night = [start for start in offer.starts if start.klass == "off_peak"]
    assert night
    assert all(start.begins < start.hour + HOUR for start in night)


def test_work_in_parts_of_a_period_has_no_start_to_choose(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer)
    week = (NOW, NOW + timedelta(days=7))
    offer = _offer(cast, market, program, 7000, form=Form(FormName.SPREAD, Fraction(86_400)), window=week)
    assert offer.starts == []
    assert _offer(cast, market, program, 10**10).starts == []  # longer than a week


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
def test_one_press_makes_the_quote_that_begins_then(
    cast: Cast, market: Market, as_user: Callable[[User], Client], zone: str
) -> None:
    cast.organisation.time_zone = zone
    cast.organisation.save()
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    response = client.get("/quotes/new/preview", {"program": program.pk, "pool": "lpu-a", "volume": "1000000"})
    page = response.content.decode()
    assert "Cheapest start times" in page
    assert page.count("tariff-pick") > 100
    first = response.context["starts"][0]
    assert client.post("/quotes/new", dict(first["hidden"])).status_code == 302
    made = Quote.objects.get()
    assert (made.klass, made.worst) == ("off_peak", first["start"].amount)
    assert made.document["window"]["start"] == first["start"].to_json()["start"]
    picked = client.get(
        "/quotes/new/preview", {"program": program.pk, "pick": f"{first['start'].hour.isoformat()}|off_peak"}
    )
    assert picked.context["controls"].klass == "off_peak"
    assert 'value="off_peak" checked' in picked.content.decode()


def test_no_pick_breaks_the_builder(cast: Cast, market: Market, as_user: Callable[[User], Client]) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    now = timezone.now().isoformat()
    for pick in ("|", f"{now}|", f"{now}|<script>", "x|off_peak", "|" * 50, f"{now}|gold"):
        answer = client.get("/quotes/new/preview", {"program": program.pk, "pick": pick})
        assert answer.status_code == 200, pick
        assert b"<script>" not in answer.content


@pytest.mark.parametrize(
    ("saving", "said"),
    [
        (Fraction(0), "same price"),
        (Fraction(2, 5), "40.0\u202f% less"),
        (Fraction(-3, 4), "75.0\u202f% more"),
        (Fraction(-1, 10**9), "<\u202f0.1\u202f% more"),
    ],
)
def test_a_saving_is_said_in_words(saving: Fraction, said: str) -> None:
    assert less_or_more(saving) == said
