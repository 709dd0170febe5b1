"""The quote page sells what its boxes hold: what means nothing is refused in sight, and the address says it all."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.sales.models import Quote
from tests.cast import Cast
from tests.sales.market import Market, seen

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]


def _text(answer: Any) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.content.decode())).split())


@pytest.mark.parametrize("volume", ["-5", "0", "1" + "0" * 17, "many", "", " ", "1.5", "1e5"])
@pytest.mark.parametrize("path", ["/quotes/new", "/quotes/new/preview"])
def test_an_invalid_volume_is_refused_in_sight_and_nothing_is_for_sale(
    cast: Cast, market: Market, as_user: AsUser, volume: str, path: str
) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    answer = client.get(path, {"program": program.pk, "klass": "batch", "pool": "lpu-a", "volume": volume})
    page = answer.content.decode()
    assert "Enter a whole number of executions from 1 to 1,000,000,000,000" in _text(answer)
    assert "Make this quote" not in page
    assert 'method="post" action="/quotes/new"' not in page
    if path == "/quotes/new":
        box = re.search(r'id="id_volume"[^>]*value="([^"]*)"', page)
        assert box is not None
        assert unescape(box[1]) == volume  # what was typed stays
        assert re.search(r'id="id_klass_batch"[^>]*checked', page)  # and so does everything else
    refused = client.post("/quotes/new", {"program": program.pk, "volume": volume, "shown": "5.632 EUR"})
    assert refused.status_code == 422
    assert not Quote.objects.exists()


def test_the_form_leaves_judging_to_the_server(cast: Cast, market: Market, as_user: AsUser) -> None:
    """A browser that judges itself sends nothing, and the earlier price would stay without a word."""
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    page = client.get("/quotes/new", {"program": program.pk}).content.decode()
    form = re.search(r'<form id="quote-form"[^>]*>', page)
    assert form is not None
    assert "novalidate" in form[0]
    assert re.search(r'id="id_volume"[^>]*type="text"', page)
    assert '<template id="offer-failed">' in page


def test_a_button_says_what_it_sells_and_a_box_that_says_else_is_refused(
    cast: Cast, market: Market, as_user: AsUser
) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    asked = {"program": str(program.pk), "pool": "lpu-a", "volume": "1000000"}
    assert "For 1,000,000 executions. The price is then locked" in _text(client.get("/quotes/new/preview", asked))
    shown = seen(client, asked)
    for box in ("-5", "2000000", "", "0", "1" + "0" * 17):
        refused = client.post("/quotes/new", {**shown, "box": box})
        assert (refused.status_code, Quote.objects.count()) == (409, 0), box
        assert "the price was for 1,000,000 executions" in _text(refused)
    assert client.post("/quotes/new", {**shown, "box": "1,000,000"}).status_code == 302
    assert Quote.objects.get().document["lines"][0]["executions"] == 1_000_000


def test_the_state_of_the_page_is_in_its_address(cast: Cast, market: Market, as_user: AsUser) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    asked = {
        "program": str(program.pk),
        "pool": "lpu-a",
        "volume": "2,000,000",
        "klass": "batch",
        "previous": "5.632",
        "start": "2999-01-01T10:00",
        "end": "2999-01-02T10:00",
    }
    answer = client.get("/quotes/new/preview", asked)
    address = answer["HX-Replace-Url"]
    assert address.startswith("/quotes/new?")
    assert "previous" not in address
    page = client.get(address)
    assert page.context["controls"] == answer.context["controls"]
    assert (page.context["controls"].volume, page.context["controls"].klass) == (2_000_000, "batch")
    assert 'value="2999-01-01T10:00"' in page.content.decode()
    assert f'data-address="{address.replace("&", "&amp;")}"' in page.content.decode()

    refused = client.get("/quotes/new/preview", {**asked, "volume": "-5"})
    again = client.get(refused["HX-Replace-Url"])
    assert "Enter a whole number" in _text(again)
    assert 'value="-5"' in again.content.decode()
