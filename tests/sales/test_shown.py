"""A quote is made at the price that the page showed, or the page says that it has changed."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.models import AuditEntry, User
from apps.accounts.problems import Problem
from apps.pricing.services import pricebook_publish
from apps.sales.models import Quote
from apps.sales.price_marks import price_check, price_mark
from tests.cast import Cast
from tests.invoicing.test_currencies import priced
from tests.pricing.rating.books import document
from tests.sales.market import Market

AsUser = Callable[[User], Client]


def _forms(page: str) -> list[dict[str, str]]:
    """What each form of the page that makes a quote would send, as a browser without JavaScript does."""
    forms = re.findall(r'<form method="post" action="/quotes/new">(.*?)</form>', page, re.DOTALL)
    fields = [re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', form) for form in forms]
    return [{name: unescape(value) for name, value in form if name != "csrfmiddlewaretoken"} for form in fields]


def _text(answer: Any) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", answer.content.decode())).split())


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("code", "exponent", "price", "was", "now"),
    [
        ("KWD", 3, "0.0008", "€ 5.63", "KWD 0.563"),
        ("EUR", 2, "0.016", "€ 5.63", "€ 11.26"),
        ("EUR", 2, "0.008001", "€ 5.632", "€ 5.632704"),  # alike when rounded: every digit is said
    ],
)
def test_a_price_that_changed_while_the_page_was_open_is_said_and_nothing_is_made(
    cast: Cast, market: Market, as_user: AsUser, code: str, exponent: int, price: str, was: str, now: str
) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    end = f"{timezone.now() + timedelta(days=3):%Y-%m-%dT%H:%M}"
    asked = {"program": str(program.pk), "pool": "lpu-a", "volume": "1000000", "end": end}
    (stale, *_) = _forms(client.get("/quotes/new", asked).content.decode())
    assert stale["shown"] == "5.632 EUR"
    at, change = timezone.now(), priced(code, exponent, price, version=2)
    pricebook_publish(document=document(change), effective_from=at, now=at - timedelta(days=40))
    refused = client.post("/quotes/new", stale)
    assert refused.status_code == 409
    said = _text(refused).replace("\u202f", " ")
    assert said.count(f"This page showed {was}, but the price is now {now}. No quote was made") == 1
    assert said.index("This page showed") < said.index("How much")  # at the head of the page
    assert not Quote.objects.exists()
    assert not AuditEntry.objects.filter(action="quote.create").exists()
    (fresh, *_) = _forms(refused.content.decode())
    assert {**fresh, "shown": ""} == {**stale, "shown": ""}  # nothing of what was entered is lost
    by_hand = client.post("/quotes/new", {name: value for name, value in stale.items() if name != "shown"})
    assert by_hand.status_code == 409
    assert "The form did not contain the price that its page showed" in _text(by_hand)
    assert _forms(by_hand.content.decode())[0] == fresh
    assert not Quote.objects.exists()
    made = client.post("/quotes/new", fresh)
    assert made.status_code == 302
    assert price_mark(Quote.objects.get().worst, code) == fresh["shown"] != stale["shown"]


@pytest.mark.django_db
def test_every_form_of_the_page_makes_its_quote_at_the_price_beside_it(
    cast: Cast, market: Market, as_user: AsUser
) -> None:
    program, client = market.program(cast.organisation, cast.engineer), as_user(cast.engineer)
    preview = client.get("/quotes/new/preview", {"program": str(program.pk), "pool": "lpu-a", "volume": "1000000"})
    forms = _forms(preview.content.decode())
    assert len(forms) > 3
    for form in forms:
        made = client.post("/quotes/new", form)
        assert made.status_code == 302, form
        quote = Quote.objects.get(pk=made["Location"].rsplit("/", 1)[1])
        assert price_mark(quote.worst, quote.currency) == form["shown"]
    assert len({form["shown"] for form in forms}) > 1


@given(st.text(max_size=80) | st.from_regex(r"\A[0-9.]{1,70} [A-Z]{3}\Z"))
def test_any_other_mark_is_a_refusal_with_a_sentence(mark: str) -> None:
    quote = Quote(worst=Decimal("5.632"), currency="EUR")
    if mark == "5.632 EUR":
        price_check(mark, quote)
        return
    with pytest.raises(Problem, match=r"page showed|did not contain the price") as refusal:
        price_check(mark, quote)
    assert refusal.value.status == 409
    assert len(refusal.value.detail) < 400
