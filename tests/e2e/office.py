"""What an administrator does in the browser, step by step. Each step returns the addresses that it ended on."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.visit import Watched
from tests.e2e.walk import PATIENT, path_of

BOOKS = Path(__file__).resolve().parents[2] / "apps" / "pricing" / "books"


def credit_customer(visit: Watched, name: str, *, amount: str) -> tuple[str, str]:
    """As administrator: grant a customer a credit by a double click; the customer's page and its first invoice's."""
    page = visit.page
    visit.open("/customers")
    page.get_by_label("Name", exact=True).fill(name)
    page.locator("main").get_by_role("button", name="Search").click()
    page.get_by_role("link", name=name).click()
    page.wait_for_url(re.compile(r"/customers/[0-9a-f-]{36}"))
    customer = path_of(page)
    page.get_by_label("Amount", exact=True).first.fill(amount)
    page.get_by_label("Reason", exact=True).first.fill("A month to try it")
    page.get_by_role("button", name="Grant credit").dblclick()
    expect(page.get_by_text("Credits left in EUR").first).to_be_visible()
    page.locator("a[href*='/customers/invoices/']").first.click()
    page.wait_for_url(re.compile(r"/customers/invoices/"))
    return customer, path_of(page)


def reconcile(visit: Watched, name: str) -> tuple[str, str]:
    """As administrator: compare everything now; the comparison's page, finished, and one organisation's in it."""
    page = visit.page
    visit.open("/reconciliations")
    page.get_by_role("button", name="Compare now").click()
    page.wait_for_url(re.compile(r"/reconciliations/[0-9a-f-]{36}$"))
    compared = path_of(page)
    link = page.get_by_role("link", name=name)
    for _ in range(PATIENT // 500):
        if link.count():
            break
        page.wait_for_timeout(500)
        page.reload()
    link.first.click()
    page.wait_for_url(re.compile(r"/reconciliations/.*/"))
    return compared, path_of(page)


def preview_prices(visit: Watched) -> None:
    """As administrator: look at what a dearer book would change. Nothing is published; the page fits and can be read."""
    page = visit.page
    visit.open("/prices/new")
    page.get_by_label("Or its text").fill(
        (BOOKS / "book-2.json")
        .read_text()
        .replace('"version": 2', '"version": 3', 1)
        .replace('"0.000004611"', '"0.000005"', 1)
    )
    page.get_by_role("button", name="Show what changes").click()
    expect(page.get_by_role("heading", name="What changes")).to_be_visible()
    expect(page.get_by_role("rowheader", name="prices.lpu.float32")).to_be_visible()
    assert visit.overflow() == []
    assert visit.barriers() == []


def draft_prices(visit: Watched) -> str:
    """As administrator: start a draft, make one price dearer, and look at what it changes; its page without the section."""
    page = visit.page
    visit.open("/prices/drafts")
    page.get_by_role("button", name="New draft").click()
    page.wait_for_url(re.compile(r"/prices/drafts/[0-9a-f-]{36}/prices$"))
    page.get_by_label("Price, lpu, int8", exact=True).fill("0.0000016")
    page.get_by_role("button", name="Save and review").click()
    page.wait_for_url(re.compile(r"/review$"))
    expect(page.get_by_role("rowheader", name="Price of a tera-operation, lpu, int8")).to_be_visible()
    return path_of(page).removesuffix("/review")


def plan_capacity(visit: Watched) -> str:
    """As administrator: ask for a capacity plan and wait until it is there; its page."""
    page = visit.page
    visit.open("/capacity/plan")
    page.get_by_role("button", name="Make a plan now").click()
    page.wait_for_url(re.compile(r"/capacity/plan/[0-9a-f-]{36}$"))
    expect(page.get_by_text("This plan assumes shared devices")).to_be_visible(timeout=PATIENT)
    return path_of(page)


def costs_and_another_book(visit: Watched, name: str) -> str:
    """As administrator: state what hours cost, read the margin, rate the month by the book in force; its page."""
    page = visit.page
    for processor_class, cost in (("lpu", "0.50"), ("lpu2", "1.75"), ("host", "0.02")):
        visit.open("/costs")
        page.get_by_label("Processor class").select_option(processor_class)
        page.get_by_label("Cost of a device-hour").fill(cost)
        page.get_by_role("button", name="Add cost").click()
        expect(page.get_by_text("The cost was added.")).to_be_visible()
    visit.open("/revenue")
    page.get_by_label("Price book").select_option("2")
    page.get_by_role("button", name=re.compile("^Rate ")).click()
    page.wait_for_url(re.compile(r"/revenue/ratings/[0-9a-f-]{36}$"))
    expect(page.get_by_role("rowheader", name=name)).to_be_visible(timeout=PATIENT)  # by itself, without a reload
    return path_of(page)


def forecast_and_what_if(visit: Watched) -> str:
    """As administrator: forecast, upload a trace, compare twice the demand with what there is; its page."""
    page = visit.page
    visit.open("/capacity/forecast")
    page.get_by_role("button", name="Forecast now").click()
    visit.open("/capacity/what-if")
    lines = "timestamp,count\n" + "".join(f"2026-03-02T10:{minute:02d}:00Z,{minute % 7}\n" for minute in range(60))
    page.get_by_label("File").set_input_files({"name": "asked.csv", "mimeType": "text/csv", "buffer": lines.encode()})
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("rowheader", name="asked.csv")).to_be_visible()
    page.get_by_label("Demand", exact=True).fill("2")
    page.get_by_label("Devices of lpu-a", exact=True).fill("1")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url(re.compile(r"/capacity/what-if/[0-9a-f-]{36}$"))
    expect(page.get_by_role("heading", name="Difference")).to_be_visible(timeout=PATIENT)  # by itself, without a reload
    return path_of(page)
