"""Quotes side by side, over the page, the files and the API."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.roles import Scope
from apps.sales.comparing import Cell, Row, compare
from apps.sales.models import Quote
from apps.sales.services import Quota, QuoteLine, quote_create
from tests.cast import Cast
from tests.sales.market import Market
from tests.sales.tenancy import a_quote_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def quotes(cast: Cast, market: Market) -> list[Quote]:
    """The same program by two classes and in two volumes, and a quota."""
    now, program = timezone.now(), market.program(cast.organisation, cast.engineer, name="=cls")
    asked = [
        ([QuoteLine(program, 1_000_000)], "standard"),
        ([QuoteLine(program, 1_500_000)], "batch"),
        (Quota("float32", 704), "standard"),
    ]
    return [
        quote_create(
            organisation=cast.organisation,
            lines=lines,
            klass=klass,
            pool=market.lpu,
            window=(now, now + timedelta(days=7)),
            actor=None,
            now=now,
        )
        for lines, klass in asked
    ]


def _by_name(quotes: list[Quote]) -> dict[str, Row]:
    return {row.name: row for row in compare(quotes, now=timezone.now())}


def test_what_differs_from_the_first_quote_is_marked_with_its_change(quotes: list[Quote]) -> None:
    rows = _by_name(quotes)
    assert [cell.value for cell in rows["net"].cells] == ["5.632 EUR", "4.224 EUR", "5.632 EUR"]
    assert [cell.change for cell in rows["net"].cells] == [0, Fraction(-1, 4), 0]
    assert [cell.change_text for cell in rows["net"].cells] == ["", "-25.0\u202f%", ""]
    assert [cell.differs for cell in rows["class"].cells] == [False, True, False]
    assert [cell.change_text for cell in rows["line1.billed"].cells][1] == "+50.0\u202f%"
    assert [cell.text for cell in rows["line1.volume"].cells][1:] == [
        "1,500,000 executions",
        "704,000,000,000,000 operations",
    ]
    assert not rows["book"].differs
    assert not rows["line1.price"].differs
    assert rows["line1.price"].cells[0].text == "€\u202f8.00 per thousand tera-operations"
    assert rows["form"].cells[2].text == "Raw quota"


def test_the_first_quote_is_the_baseline(quotes: list[Quote]) -> None:
    assert _by_name(quotes[1::-1])["net"].cells[1].change == Fraction(1, 3)
    assert all(not row.differs for row in compare(quotes[:1], now=timezone.now()))


def test_page_and_files_show_the_same(
    cast: Cast, quotes: list[Quote], as_user: Callable[[User], Client], as_token: Callable[..., Client]
) -> None:
    client = as_user(cast.viewer)
    query = "&".join(f"quote={quote.pk}" for quote in quotes)
    page = client.get(f"/quotes/compare?{query}").content.decode()
    assert "-25.0\u202f%" in page
    assert page.count("use as baseline") == 2
    rows = list(csv.DictReader(io.StringIO(client.get(f"/quotes/compare?{query}&format=csv").content.decode())))
    net = next(row for row in rows if row["fact"] == "Maximum net price")
    assert (net[str(quotes[1].pk)], net["differs"]) == ("4.224 EUR", "2")
    assert next(row for row in rows if row["fact"] == "Line 1: program")[str(quotes[0].pk)].startswith("'=cls")
    answer = as_token(cast.viewer, cast.organisation, Scope.READ).get(f"/api/v1/quotes/compare?{query}").json()
    assert answer == client.get(f"/quotes/compare?{query}&format=json").json()
    assert answer["baseline"] == str(quotes[0].pk)
    assert next(row for row in answer["rows"] if row["name"] == "net")["changes"] == ["0", "-1/4", "0"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Fraction(-9999, 10_000), "over 99.9\u202f% less"),
        (Fraction(9999, 10_000), "over 99.9\u202f% more"),
        (Fraction(-1, 10_000), "under 0.1\u202f% less"),
        (Fraction(1, 2), "+50.0\u202f%"),
    ],
)
def test_a_change_with_no_exact_figure_is_said_in_words(change: Fraction, said: str) -> None:
    assert Cell(text="", value="", differs=True, change=change).change_text == said


def test_a_strangers_quote_is_not_there_and_nonsense_is_answered(
    cast: Cast, as_user: Callable[[User], Client], as_token: Callable[..., Client]
) -> None:
    quote = a_quote_of(cast)
    stranger, client = as_user(cast.stranger), as_user(cast.viewer)
    for kind in ("", "csv", "json", "exe"):
        assert stranger.get("/quotes/compare", {"quote": quote.pk, "format": kind}).status_code == 404
        assert client.get("/quotes/compare", {"quote": "none", "format": kind}).status_code == 404
    assert client.get("/quotes/compare", {"quote": quote.pk, "format": "exe"})["Content-Type"].startswith("text/html")
    assert client.get("/quotes/compare").status_code == 200
    many = "&".join([f"quote={quote.pk}"] * 30)
    assert client.get(f"/quotes/compare?{many}").content.decode().count(">remove<") == 0
    api = as_token(cast.viewer, cast.organisation, Scope.READ)
    assert api.get(f"/api/v1/quotes/compare?{many}").status_code == 422
    assert api.get("/api/v1/quotes/compare").status_code == 422


def test_with_nothing_to_compare_the_page_teaches(cast: Cast, as_user: Callable[[User], Client]) -> None:
    assert "There is no quote to compare yet." in as_user(cast.viewer).get("/quotes/compare").content.decode()
