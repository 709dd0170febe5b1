"""Quotas, parts of a period, intervals, measured charges and amendments by the controls of the page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.pricing.rating import Counts
from apps.sales.models import Contract, Quote
from apps.sales.price_marks import PRICE_FIELD
from apps.sales.services import QuoteLine, contract_lease_rate, quote_accept, quote_create
from tests.cast import Cast
from tests.sales.market import NOW, Market, open_market, seen

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]


def _made(client: Client, data: dict[str, Any]) -> Quote:
    shown = client.get("/quotes/new/preview", data)
    assert shown.status_code == 200
    assert shown.context["refusal"] is None, shown.context["refusal"].detail
    answer = client.post("/quotes/new", {**data, PRICE_FIELD: dict(shown.context["make"])[PRICE_FIELD]})
    assert answer.status_code == 302, answer.content[:500]
    quote = Quote.objects.latest("created_at")
    assert shown.context["document"]["net"] == quote.document["net"]
    assert dict(shown.context["controls"].hidden).items() >= {(key, str(value)) for key, value in data.items() if value}
    return quote


def test_a_quota_by_its_controls(cast: Cast, market: Market, as_user: AsUser) -> None:
    client = as_user(cast.engineer)
    assert "Tera-operations" in client.get("/quotes/new?form=quota").content.decode()
    data = {"form": "quota", "volume": "500", "pool": "lpu-a", "klass": "standard", "precision": "int8"}
    quote = _made(client, data)
    assert (quote.form, quote.worst) == ("quota", Decimal("1"))
    refused = client.post("/quotes/new", {**data, "volume": "5000001"})
    assert refused.status_code == 422
    assert "tera-operations from 1 to 5,000,000" in refused.content.decode()


def test_equal_parts_and_intervals_by_their_controls(cast: Cast, as_user: AsUser) -> None:
    market = open_market(change=lambda book: book["classes"]["guaranteed"].update(offered=True))
    program = market.program(cast.organisation, cast.engineer, operations=2_000_000_000, interval=1700, latency=2000)
    client = as_user(cast.engineer)
    start = (timezone.now() + timedelta(hours=2)).replace(microsecond=0)
    page = client.get(f"/quotes/new?program={program.pk}").content.decode()
    assert (
        "for example 500 every 1 ms. Class Guaranteed interval: 2 x the list price; unused executions cost 0.6 x the list price."
        in page
    )
    spread = {
        "program": program.pk,
        "volume": 7000,
        "pool": "lpu-a",
        "klass": "standard",
        "form": "spread",
        "every": "1",
        "unit": "d",
        "start": start.isoformat(),
        "end": (start + timedelta(days=7)).isoformat(),
    }
    assert len(_made(client, spread).document["reservation"]) == 7
    interval = {
        **spread,
        "volume": 500,
        "klass": "guaranteed",
        "form": "interval",
        "unit": "ms",
        "end": (start + timedelta(seconds=10)).isoformat(),
    }
    assert _made(client, interval).worst == Decimal("160")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"form": "spread"}, "Enter the length of a part"),
        ({"form": "spread", "every": "0"}, "Enter the length of a part"),
        ({"form": "spread", "every": "1", "unit": "y"}, "Enter the length of a part"),
        ({"form": "spread", "every": "-1"}, "Enter the length of a part"),
        ({"form": "interval", "every": "\u0661"}, "Enter the length of a part"),
        ({"form": "interval", "every": "1e9"}, "Enter the length of a part"),
        ({"form": "interval", "every": "1", "unit": "ms", "volume": "1"}, "has no price for a"),
        ({"measured": "on"}, "Nothing to measure"),
        ({"form": "spread", "every": "1", "unit": "s"}, "at least one hour"),
    ],
)
def test_controls_of_a_form_that_mean_nothing_are_answered_in_the_page(
    cast: Cast, market: Market, as_user: AsUser, changes: dict[str, str], said: str
) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    start = timezone.now() + timedelta(hours=2)
    data = {"program": program.pk, "pool": "lpu-a", "start": start.isoformat(), **changes}
    page = client.get("/quotes/new/preview", data).content.decode()
    assert said in page or said in client.get("/quotes/new", data).content.decode()
    assert client.post("/quotes/new", data).status_code == 422


def test_what_is_measured_is_charged_up_to_the_worst_that_is_held(cast: Cast, market: Market, as_user: AsUser) -> None:
    program = market.program(cast.organisation, cast.engineer, exact=False)
    client = as_user(cast.engineer)
    data = {"program": program.pk, "volume": 1_000_000, "pool": "lpu-a", "klass": "standard"}
    assert "Charge what is measured" in client.get("/quotes/new", data).content.decode()
    plain, measured = _made(client, data), _made(client, {**data, "measured": "on"})
    assert plain.worst == measured.worst == Decimal("5.632")
    assert any("the measured cost is charged" in said for said in measured.document["assumptions"])
    now = timezone.now()
    contract = quote_accept(quote_id=measured.id, organisation=cast.organisation, actor=None, now=now)
    assert contract.terms["lines"][0]["rating"]["terms"]["measured"] is True
    rating = contract_lease_rate(
        contract=contract,
        program_digest=program.digest,
        executions=1000,
        first_instant=now,
        now=now,
        measured=Counts(352_000_000 * 1000, 45_000 * 1000),
    )
    assert rating.amount * 2 == Decimal("0.005632")


def test_nothing_is_measured_on_a_host(cast: Cast, market: Market) -> None:
    program = market.program(cast.organisation, cast.engineer, exact=False)
    with pytest.raises(Problem, match="not proven"):
        quote_create(
            organisation=cast.organisation,
            lines=[QuoteLine(program, 1)],
            klass="standard",
            pool=market.host,
            measured=True,
            actor=None,
            now=NOW,
        )


@pytest.mark.parametrize("form", ["execution", "quota", "spread"])
def test_amending_begins_with_what_the_contract_has_left(
    cast: Cast, market: Market, as_user: AsUser, form: str
) -> None:
    client, now = as_user(cast.owner), timezone.now()
    data: dict[str, Any] = {"volume": 7000, "pool": "lpu-a", "klass": "batch" if form == "execution" else "standard"}
    if form == "quota":
        data |= {"form": "quota"}
    else:
        data |= {"program": market.program(cast.organisation, cast.engineer).pk}
    if form == "spread":
        data |= {"form": "spread", "every": "1", "unit": "d"}
    quote = _made(client, data)
    old = quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=None, now=now)
    page = client.get(f"/quotes/new?amends={old.pk}")
    controls = page.context["controls"]
    assert (controls.volume, controls.klass, controls.form) == (7000, data["klass"], form)
    assert (controls.every, controls.unit) == (("1", "d") if form == "spread" else ("", "d"))
    assert "ends the rest of the contract" in page.content.decode()
    asked = {
        **dict(controls.hidden),
        "volume": "14000",
        "start": "",
        "end": (now + timedelta(days=7, hours=1)).isoformat(),
    }
    made = client.post("/quotes/new", seen(client, asked))
    assert made.status_code == 302, made.context["refusal"].detail
    assert Quote.objects.get(amends=old).document["amends"]["contract"] == str(old.pk)
    client.post(f"{made['Location']}/accept")
    assert Contract.objects.get(quote__amends=old).net > old.net


def test_several_programs_are_amended_together(cast: Cast, market: Market, as_user: AsUser) -> None:
    client, now = as_user(cast.owner), timezone.now()
    first, second = (market.program(cast.organisation, cast.engineer, name=name) for name in ("one", "two"))
    quote = quote_create(
        organisation=cast.organisation,
        lines=[QuoteLine(first, 7000), QuoteLine(second, 500)],
        klass="batch",
        pool=market.lpu,
        actor=None,
        now=now,
    )
    old = quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=None, now=now)
    page = client.get(f"/quotes/new?amends={old.pk}")
    controls = page.context["controls"]
    assert [(row["program"], row["volume"]) for row in controls.rows] == [(first, 7000), (second, 500)]
    assert "one on lpu" in page.content.decode()
    sent = {**dict(controls.hidden), "start": "", "end": (now + timedelta(days=7)).isoformat()}
    asked = {**sent, f"volume-{first.pk}": "9,000", f"volume-{second.pk}": "0"}
    preview = client.get("/quotes/new/preview", asked)
    assert preview.context["document"]["amends"]["contract"] == str(old.pk)
    made = client.post("/quotes/new", seen(client, asked))
    assert made.status_code == 302, made.context["refusal"].detail
    (line,) = Quote.objects.get(amends=old).document["lines"]
    assert (line["program"]["digest"], line["executions"]) == (first.digest, 9000)
    client.post(f"{made['Location']}/accept")
    assert Contract.objects.get(quote__amends=old).lines.count() == 1
    for wrong in ({f"volume-{first.pk}": "0", f"volume-{second.pk}": "0"}, {f"volume-{first.pk}": "-1"}):
        assert client.post("/quotes/new", {**sent, **wrong}).status_code in (409, 422)


@pytest.mark.parametrize(
    "wrong",
    [
        {"volume": "²"},
        {"volume": "٣"},
        {"volume": "1" + "0" * 5000},
        {"volume": "NaN"},
        {"start": "0001-01-01T00:00+23:59"},
        {"end": "9999-12-31T23:59-12:00"},
        {"start": "2026-12-01T22:00+99:00"},
        {"pool": "moon"},
        {"klass": "gold"},
        {"form": "gift"},
        {"form": "spread", "every": "1e400"},
        {"previous": "1e999999999"},
        {"previous": "sNaN"},
    ],
)
def test_absurd_controls_are_answered_in_the_page(
    cast: Cast, market: Market, as_user: AsUser, wrong: dict[str, str]
) -> None:
    client, program = as_user(cast.owner), market.program(cast.organisation, cast.engineer)
    data = {"program": program.pk, "volume": "7", "pool": "lpu-a", "klass": "standard", **wrong}
    for answer in (client.get("/quotes/new", data), client.get("/quotes/new/preview", data)):
        assert answer.status_code == 200
        assert (answer.context["refusal"] is not None) == ("previous" not in wrong)


def test_a_strangers_contract_cannot_be_amended(cast: Cast, market: Market, as_user: AsUser) -> None:
    quote = quote_create(
        organisation=cast.organisation,
        lines=[QuoteLine(market.program(cast.organisation, cast.engineer), 5)],
        klass="standard",
        pool=market.lpu,
        actor=None,
        now=timezone.now(),
    )
    old = quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=None, now=timezone.now())
    for client in (as_user(cast.stranger),):
        assert client.get(f"/quotes/new?amends={old.pk}").status_code == 404
        assert client.post("/quotes/new", {"amends": str(old.pk)}).status_code == 404
    assert as_user(cast.engineer).get("/quotes/new?amends=x").status_code == 404
