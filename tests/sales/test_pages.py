from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from datetime import timedelta
from html import unescape
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.pricing.rating import digest_of
from apps.sales.models import Contract, Quote
from apps.sales.services import quote_accept, quote_create, quote_share
from tests.cast import Cast
from tests.sales.market import Market, seen
from tests.sales.tenancy import a_contract_of, a_quote_of

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]


def _text(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200, response.content[:500]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def test_the_builder_prices_what_the_controls_say(cast: Cast, market: Market, as_user: AsUser) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    page = _text(client, f"/quotes/new?program={program.pk}&volume=1000000")
    assert "5.63" in page
    assert (
        page.count("The price book in force does not offer this choice.") == 3
    )  # two classes, and the form that needs one of them
    preview = _text(client, f"/quotes/new/preview?program={program.pk}&volume=2000000&pool=lpu-a&previous=5.632")
    assert "11.26" in preview
    assert "€ 5.63 +100.0 %" in preview
    off_peak = _text(client, f"/quotes/new/preview?program={program.pk}&volume=1000000&klass=off_peak")
    assert "3.38" in off_peak


def test_picking_an_hour_moves_the_window(cast: Cast, market: Market, as_user: AsUser) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    cast.organisation.time_zone = "Europe/Berlin"
    cast.organisation.save()
    start = (timezone.now() + timedelta(days=2)).replace(minute=0, second=0, microsecond=0)
    response = client.get("/quotes/new/preview", {"program": program.pk, "pick": start.isoformat()})
    assert 'id="id_start" name="start" value="' in response.content.decode()
    assert response.context["controls"].start == start


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("volume=0", "from 1 to"),
        ("volume=-3", "from 1 to"),
        ("volume=many", "from 1 to"),
        ("volume=" + "9" * 40, "from 1 to"),
        ("start=tomorrow", "not a date and time"),
        ("klass=gold", "no class"),
        ("klass=gap_fill", "not available yet"),
        ("pool=lpu2-b", "compiled for lpu"),
        ("pool=moon", "no pool"),
        ("start=2020-01-01T00:00&end=2020-01-02T00:00", "must end in the future"),
    ],
)
def test_controls_that_make_no_sense_are_answered_in_the_page(
    cast: Cast, market: Market, as_user: AsUser, query: str, said: str
) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    for url in ("/quotes/new", "/quotes/new/preview"):
        assert said in _text(client, f"{url}?program={program.pk}&{query}")


def test_a_plan_of_nobody_is_not_found(cast: Cast, market: Market, as_user: AsUser) -> None:
    for url in ("/quotes/new", "/quotes/new/preview"):
        assert as_user(cast.engineer).get(url, {"plan": str(uuid4())}).status_code == 404


def test_the_quote_that_is_made_is_the_one_that_was_shown(cast: Cast, market: Market, as_user: AsUser) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    asked = {"program": program.pk, "volume": "250000", "pool": "lpu-a", "klass": "batch", "start": "", "end": ""}
    response = client.post("/quotes/new", seen(client, asked))
    quote = Quote.objects.get()
    assert response["Location"] == f"/quotes/{quote.pk}"
    assert quote.document["net"] == "0.704"
    page = _text(client, response["Location"])
    assert "0.704" in page
    assert "Of the discounts (batch 0.5) only the largest applies." in page
    assert "Create a share link" in page


def test_accepting_says_what_it_takes_and_then_takes_it(cast: Cast, market: Market, as_user: AsUser) -> None:
    quote, client = _quote(cast, market), as_user(cast.billing)
    page = _text(client, f"/quotes/{quote.pk}/accept")
    assert "is set aside; you never pay more than that. You pay for what you use" in page
    response = client.post(f"/quotes/{quote.pk}/accept")
    contract = Contract.objects.get()
    assert response["Location"] == f"/contracts/{contract.pk}"
    assert "Quoted against actual" in _text(client, response["Location"])
    again = client.post(f"/quotes/{quote.pk}/accept")
    assert again.status_code == 409
    assert str(contract.pk) in again.content.decode()


def test_an_expired_quote_offers_a_new_one(cast: Cast, market: Market, as_user: AsUser) -> None:
    quote = _quote(cast, market, age=timedelta(days=2))
    client = as_user(cast.owner)
    assert "Make a new quote" in _text(client, f"/quotes/{quote.pk}")
    assert client.post(f"/quotes/{quote.pk}/accept").status_code == 409


def test_a_shared_quote_can_be_read_and_not_accepted(cast: Cast, market: Market, as_user: AsUser) -> None:
    quote = _quote(cast, market)
    quote = quote_share(quote_id=quote.pk, organisation=cast.organisation, actor=None, now=timezone.now())
    page = Client().get(f"/shared/quotes/{quote.share_token}").content.decode()
    assert "Why this number?" in page
    assert f"/quotes/{quote.pk}/accept" not in page
    assert Client().get("/shared/quotes/nothing").status_code == 404


def test_the_files_say_what_the_document_says(cast: Cast, market: Market, as_user: AsUser) -> None:
    quote, client = _quote(cast, market), as_user(cast.viewer)
    stored = json.loads(client.get(f"/quotes/{quote.pk}/quote.json").content)
    digest = stored.pop("digest")
    assert digest == quote.digest == digest_of(stored)
    rows = list(csv.DictReader(io.StringIO(client.get(f"/quotes/{quote.pk}/quote.csv").content.decode())))
    assert [row["step"] for row in rows] == [step["name"] for step in quote.document["lines"][0]["rating"]["steps"]]
    assert rows[-1]["result"] == quote.document["net"]
    first, second = (client.get(f"/quotes/{quote.pk}/quote.pdf").content for _ in range(2))
    assert first == second
    assert first.startswith(b"%PDF")
    assert client.get(f"/quotes/{quote.pk}/quote.exe").status_code == 404


def test_a_contract_can_be_ended_on_its_page(cast: Cast, as_user: AsUser) -> None:
    contract, client = a_contract_of(cast), as_user(cast.owner)
    assert "Ended. The remaining capacity" in client.post(f"/contracts/{contract.pk}/end", follow=True).content.decode()
    assert "already ended" in client.post(f"/contracts/{contract.pk}/end", follow=True).content.decode()


def test_empty_lists_say_what_to_do(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.owner)
    assert "No quotes yet" in _text(client, "/quotes")
    assert "No contracts yet" in _text(client, "/contracts")
    a_contract_of(cast)
    assert "1,000 executions" in _text(client, "/quotes")
    assert "Active" in _text(client, "/contracts").title()


def test_lists_do_not_ask_the_database_once_more_for_every_quote(
    cast: Cast, as_user: AsUser, django_assert_max_num_queries: Callable[[int], object]
) -> None:
    quote, client = a_quote_of(cast), as_user(cast.owner)
    for number in range(5):
        Quote.objects.bulk_create([_copy(quote, number)])
    with django_assert_max_num_queries(14):  # type: ignore[attr-defined]
        client.get("/quotes")


def test_contracts_are_listed_in_as_many_queries_as_one(
    cast: Cast, market: Market, as_user: AsUser, django_assert_max_num_queries: Callable[[int], object]
) -> None:
    for _ in range(4):
        quote = _quote(cast, market)
        quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=None, now=timezone.now())
    client = as_user(cast.owner)
    with django_assert_max_num_queries(15):  # type: ignore[attr-defined]
        assert client.get("/contracts").content.decode().count("/contracts/") >= 4


def _copy(quote: Quote, number: int) -> Quote:
    copy = Quote.objects.get(pk=quote.pk)
    copy.pk, copy.share_token = None, f"token-{number}"
    copy._state.adding = True
    copy.id = type(quote.id)(int=quote.id.int ^ (number + 1))
    copy.number = quote.number + 1 + number
    return copy


def _quote(cast: Cast, market: Market, *, age: timedelta = timedelta(0)) -> Quote:
    made = timezone.now() - age
    return quote_create(
        organisation=cast.organisation,
        lines=[(market.program(cast.organisation, cast.engineer), 1_000_000)],
        klass="standard",
        pool=market.lpu,
        actor=cast.engineer,
        now=made,
    )
