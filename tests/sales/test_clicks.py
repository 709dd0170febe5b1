"""No press of a button on the quote page is lost, however late the price comes, and nothing is made that was not asked for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, Page, Route, expect
from pytest_django.live_server_helper import LiveServer

from apps.accounts.models import User
from apps.sales.models import Quote
from tests.cast import Cast
from tests.e2e import visit as visiting
from tests.sales.market import Market

TYPED = 20_000_000
QUOTE = re.compile(r"/quotes/[0-9a-f-]{36}$")
PATIENT = 60_000
THOROUGH = pytest.mark.thorough


class Builder:
    """The quote page, whose prices come when the test lets them."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.box, self.make = page.locator("#id_volume"), page.locator("#make-quote")
        self.held: list[Route] = []
        self.holds = False
        page.route("**/quotes/new/preview*", self._hold)

    def _hold(self, route: Route) -> None:
        if self.holds:
            self.held.append(route)
        else:
            route.continue_()

    def type(self, text: str) -> None:
        """As a person does, key by key."""
        self.box.click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.type(text)

    def arrived(self, volume: int) -> None:
        """Wait until the price of a volume is there."""
        expect(self.page.locator("#offer .offer-make")).to_contain_text(f"For {volume:,} executions.")
        expect(self.page.locator("#offer[aria-busy]")).to_have_count(0)

    def asked(self) -> None:
        """Wait until a price is asked for; it does not come."""
        for _ in range(PATIENT // 20):
            if self.held:
                return
            self.page.wait_for_timeout(20)
        raise AssertionError("no price was asked for")

    def let(self) -> None:
        """Let the prices come."""
        self.holds = False
        while self.held:
            self.held.pop().continue_()

    def made(self) -> int:
        """Wait for the page of the quote; for how many executions it is."""
        self.page.wait_for_url(QUOTE)
        (quote,) = Quote.objects.all()
        return int(quote.document["lines"][0]["executions"])


@pytest.fixture
def builder(
    chromium: Browser, live_server: LiveServer, cast: Cast, market: Market, as_user: Callable[[User], Client]
) -> Iterator[Builder]:
    """The page as an engineer sees it; errors in its scripts fail the test."""
    program = market.program(cast.organisation, cast.engineer)
    session = as_user(cast.engineer).cookies[settings.SESSION_COOKIE_NAME].value
    context = visiting.context(chromium)
    context.set_default_timeout(PATIENT)
    context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": live_server.url}])
    page, faults = context.new_page(), []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(f"{live_server.url}/quotes/new?program={program.pk}&pool=lpu-a&volume=1000000")
    yield Builder(page)
    page.unroute_all(behavior="ignoreErrors")
    context.close()
    assert faults == []


def test_one_press_is_enough_once_the_price_is_there(builder: Builder) -> None:
    """The press itself leaves the box, which tells of a change; the page took that for another volume than the priced one."""
    builder.type(str(TYPED))
    builder.arrived(TYPED)
    builder.make.click()
    assert builder.made() == TYPED


@pytest.mark.parametrize("key", ["", pytest.param("Enter", marks=THOROUGH), pytest.param("Space", marks=THOROUGH)])
def test_a_press_before_the_price_is_there_waits_for_it(builder: Builder, key: str) -> None:
    builder.holds = True
    builder.type(str(TYPED))
    if key:
        builder.make.focus()
        builder.page.keyboard.press(key)
    else:
        builder.make.click()
    expect(builder.make).to_have_class(re.compile("btn-loading"))
    expect(builder.page.locator("#live")).to_have_text("The quote is made as soon as the price is there.")
    assert not Quote.objects.exists()
    builder.asked()
    builder.let()
    assert builder.made() == TYPED


@pytest.mark.parametrize("key", ["", "Space"])
def test_a_price_that_comes_in_the_middle_of_a_press_does_not_take_it_away(builder: Builder, key: str) -> None:
    builder.holds = True
    builder.type(str(TYPED))
    builder.asked()
    if key:
        builder.make.focus()
        builder.page.keyboard.down(key)
    else:
        builder.make.hover()
        builder.page.mouse.down()
    builder.let()
    builder.arrived(TYPED)
    if key:
        builder.page.keyboard.up(key)
    else:
        builder.page.mouse.up()
    assert builder.made() == TYPED


@THOROUGH
def test_a_press_that_ends_elsewhere_makes_nothing(builder: Builder) -> None:
    builder.holds = True
    builder.type(str(TYPED))
    builder.asked()
    builder.make.hover()
    builder.page.mouse.down()
    builder.page.mouse.move(5, 5)
    builder.let()
    builder.arrived(TYPED)
    builder.page.mouse.up()
    builder.page.wait_for_timeout(200)
    assert not QUOTE.search(builder.page.url)
    assert not Quote.objects.exists()


def test_what_means_nothing_is_refused_in_sight(builder: Builder) -> None:
    builder.holds = True
    builder.type("-5")
    builder.make.click()
    builder.asked()
    builder.let()
    refusal = builder.page.locator("#offer [role=alert]")
    expect(refusal).to_contain_text("Enter a whole number of executions")
    expect(refusal).to_be_focused()
    assert not Quote.objects.exists()


def test_who_types_on_after_the_press_makes_nothing(builder: Builder) -> None:
    builder.holds = True
    builder.type(str(TYPED))
    builder.make.click()
    expect(builder.make).to_have_class(re.compile("btn-loading"))
    builder.type("3000000")
    expect(builder.make).not_to_have_class(re.compile("btn-loading"))
    builder.asked()
    builder.let()
    builder.arrived(3_000_000)
    assert not Quote.objects.exists()
    builder.make.click()
    assert builder.made() == 3_000_000


def test_a_price_that_never_comes_is_said_and_nothing_is_made(builder: Builder) -> None:
    builder.holds = True
    builder.type(str(TYPED))
    builder.make.click()
    builder.asked()
    for route in builder.held:
        route.abort()
    said = builder.page.locator("#offer [role=alert]")
    expect(said).to_contain_text("The price could not be computed")
    expect(said).to_be_focused()
    assert not Quote.objects.exists()


@THOROUGH
def test_another_class_is_made_by_one_press_too(builder: Builder) -> None:
    builder.holds = True
    builder.type(str(TYPED))
    builder.page.get_by_role("button", name="Make quote: class Batch").click()
    builder.asked()
    builder.let()
    assert builder.made() == TYPED
    assert Quote.objects.get().klass == "batch"


@THOROUGH
def test_a_choice_that_is_gone_with_the_next_price_is_said(builder: Builder) -> None:
    """In another volume or window a row may not be there any more."""
    builder.holds = True
    button = builder.page.get_by_role("button", name="Make quote: class Batch")
    button.evaluate("button => { button.id = 'make-of-yesterday'; }")
    builder.type(str(TYPED))
    button.click()
    builder.asked()
    builder.let()
    said = builder.page.locator("#offer [role=alert]").first
    expect(said).to_contain_text("No quote was made")
    expect(said).to_be_focused()
    assert not Quote.objects.exists()


def test_an_hour_is_picked_by_one_press(builder: Builder) -> None:
    hour = builder.page.locator("button[name=pick]").last
    picked = datetime.fromisoformat(hour.get_attribute("value").partition("|")[0])
    hour.click()
    expect(builder.page.locator("#id_start")).not_to_have_value("")
    expect(builder.page.locator("#offer[aria-busy]")).to_have_count(0)
    builder.make.click()
    builder.page.wait_for_url(QUOTE)
    assert datetime.fromisoformat(Quote.objects.get().document["window"]["start"]) == picked
