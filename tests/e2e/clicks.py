"""The first hour of a new customer, click by click. Nothing is typed into the address bar and no page is reloaded by hand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.e2e.walk import PASSWORD, PATIENT


@dataclass
class Clicks:
    """A page on which every click is counted. Typing, choosing a file and what the page does by itself are not clicks."""

    page: Page
    count: int = 0

    def on(self, what: Locator) -> None:
        what.click(timeout=PATIENT)
        self.count += 1

    def button(self, name: str | re.Pattern[str]) -> None:
        self.on(self.page.get_by_role("button", name=name).first)

    def link(self, name: str | re.Pattern[str]) -> None:
        self.on(self.page.get_by_role("link", name=name).first)


def to_first_report(clicks: Clicks, *, email: str, model: Path) -> int:
    """From the landing page to the report of an own model; returns the clicks."""
    page = clicks.page
    clicks.link("Create an account")
    page.get_by_label("Your name").fill("Nora")
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_label("Organisation").fill("Nora's workshop")
    clicks.on(page.locator("main form button").first)
    clicks.link("Open this installation's mailbox")
    message = page.get_by_role("article", name="Confirm your e-mail address").filter(has_text=f"To {email}")
    clicks.on(message.first.get_by_role("link").first)
    clicks.link("Upload a model")
    page.locator("main input[type=file]").first.set_input_files(str(model))
    clicks.button("Upload")
    page.wait_for_url(re.compile(r"/programs/[0-9a-f-]{36}"), timeout=PATIENT)
    return clicks.count


def to_first_quote(clicks: Clicks) -> int:
    """From the report to a quote; returns all clicks so far."""
    clicks.on(clicks.page.locator("a[href*='/quotes/new?program=']").first)
    clicks.on(clicks.page.locator("#offer .offer-make").first.get_by_role("button", name="Make this quote"))
    clicks.page.wait_for_url(re.compile(r"/quotes/[0-9a-f-]{36}"))
    return clicks.count


def to_first_result(clicks: Clicks) -> int:
    """From the quote to the result of a job; returns all clicks so far."""
    page = clicks.page
    clicks.link(re.compile("^Accept"))
    clicks.button(re.compile("^Accept for"))
    page.wait_for_url(re.compile(r"/contracts/[0-9a-f-]{36}"))
    clicks.link("Run a job")
    page.locator("input[name=sample_items]").fill("4")
    clicks.button("Submit")
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}"))
    expect(page.locator("#job .metric-value").first).to_have_text("Done", timeout=PATIENT)
    return clicks.count
