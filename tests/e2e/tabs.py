"""The same page in two tabs, and the back button: what is no longer offered cannot be bought, and nothing is bought twice."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.e2e import walk
from tests.e2e.visit import Watched

ACCEPT = re.compile("^Accept for")


def accept_in_two_tabs(visit: Watched, program: str) -> None:
    """Accept a quote in one tab, then in the other, then go back and look: one contract, and each page says where it is."""
    quoted = walk.quote(visit, f"program={program}", volume=1_000)
    page, other = visit.page, visit.page.context.new_page()
    other.goto(f"{visit.base}{quoted}/accept")
    contract = walk.accept(visit, quoted)
    other.get_by_role("button", name=ACCEPT).click()
    expect(other.get_by_role("heading", level=1)).to_contain_text("is accepted")
    link = other.get_by_role("link", name=re.compile("^Open contract")).first
    expect(link).to_have_attribute("href", contract)
    expect(other.get_by_role("button", name=ACCEPT)).to_have_count(0)
    other.close()
    page.go_back()
    button = page.get_by_role("button", name=ACCEPT)
    if button.count():  # the browser kept the page as it was
        button.click()
    expect(page.get_by_role("link", name=re.compile("^Open contract")).first).to_have_attribute("href", contract)


def accept_what_was_withdrawn(visit: Watched, program: str) -> None:
    """Withdraw a quote in one tab and accept it in the other: it is refused in a sentence."""
    quoted = walk.quote(visit, f"program={program}", volume=1_001)
    other = visit.page.context.new_page()
    other.goto(f"{visit.base}{quoted}/accept")
    visit.page.once("dialog", lambda dialog: dialog.accept())
    visit.page.get_by_role("button", name="Withdraw this quote").click()
    expect(visit.page.get_by_text(re.compile("withdrawn", re.IGNORECASE)).first).to_be_visible()
    other.get_by_role("button", name=ACCEPT).click()
    expect(other.locator("main").get_by_role("alert").first).to_contain_text(re.compile("withdrawn", re.IGNORECASE))
    expect(other.get_by_role("button", name=ACCEPT)).to_have_count(0)
    other.close()
