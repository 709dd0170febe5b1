"""A keyboard and nothing else: Tab reaches it, the focus is seen, Enter or Space does it. No step knows the mouse."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect

from tests.e2e.visit import Watched
from tests.e2e.walk import PATIENT, path_of

MOST = 160  # presses of Tab until something must be reached
# What has the focus, whether it is the wanted part, and what a person sees of that; null when the page itself has it. Seen is
# a ring or a shadow, of a part that is neither empty nor hidden beneath another one.
SEEN = """wanted => {
  const part = document.activeElement;
  if (!part || part === document.body) return null;
  const box = part.getBoundingClientRect(), style = getComputedStyle(part);
  const ring = (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none';
  const hit = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
  const label = hit && hit.closest('label');
  const beneath = hit && (part.contains(hit) || hit.contains(part) || (label && label.control === part));
  const words = (part.getAttribute('aria-label') || part.innerText || part.id || part.name || '').trim().slice(0, 60);
  const seen = box.width > 0 && box.height > 0 && Boolean(beneath);
  return {is: part === wanted, what: part.tagName.toLowerCase() + ' "' + words + '"', ring: ring, seen: seen};
}"""


def reach(page: Page, wanted: Locator, *, key: str = "Tab") -> list[str]:
    """Press Tab until `wanted` has the focus; every stop on the way must be seen. Returns the stops."""
    expect(wanted).to_be_attached()
    stops: list[str] = []
    if wanted.evaluate("part => part === document.activeElement"):
        return stops
    for _ in range(MOST):
        page.keyboard.press(key)
        stop: dict[str, Any] | None = wanted.evaluate(SEEN)
        if stop is None:
            continue
        assert stop["ring"], f"{page.url}: no ring around {stop['what']}"
        assert stop["seen"], f"{page.url}: the focus is out of sight on {stop['what']}"
        stops.append(stop["what"])
        if stop["is"]:
            return stops
    raise AssertionError(f"{page.url}: {MOST} presses of {key} do not reach {wanted}; the last stops: {stops[-8:]}")


def press(page: Page, wanted: Locator, key: str = "Enter") -> None:
    """Reach it, and press."""
    reach(page, wanted)
    page.keyboard.press(key)


def write(page: Page, wanted: Locator, text: str) -> None:
    """Reach a box, and type into it in place of what it holds."""
    reach(page, wanted)
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type(text)


def buy(visit: Watched, *, email: str, password: str, model: Path) -> str:
    """From the sign-in page to the invoice, by keys alone; ends on the invoice."""
    page = visit.page
    visit.open("/sign-in")
    write(page, page.get_by_label("E-mail address"), email)
    write(page, page.get_by_label("Password"), password)
    page.keyboard.press("Enter")
    expect(page.locator("body.with-rail")).to_be_visible()
    contract = _contract(page, model)
    assert contract.startswith("/contracts/")
    return _invoiced(page)


def _invoiced(page: Page) -> str:
    """From the contract: a job, done, and its invoice."""
    press(page, page.get_by_role("link", name="Run a job"))
    write(page, page.locator("input[name=sample_items]"), "3")
    press(page, page.get_by_role("button", name="Submit", exact=True))
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}"))
    expect(page.locator("#job .metric-value").first).to_have_text("Done", timeout=PATIENT)
    press(page, page.get_by_role("link", name="Invoices", exact=True))
    press(page, page.get_by_role("button", name="Issue now"))
    page.wait_for_url(re.compile(r"/invoices/[0-9a-f-]{36}"))
    return path_of(page)


def _contract(page: Page, model: Path) -> str:
    """Upload, compile, quote and accept; ends on the contract."""
    press(page, page.locator("a.skip-link, a[href='#content'], a[href='#main']").first)
    press(page, page.get_by_role("link", name="Models", exact=True))
    press(page, page.get_by_role("link", name=re.compile("Upload")).first)
    with page.expect_file_chooser() as chooser:
        press(page, page.locator("main input[type=file]").first, "Space")
    chooser.value.set_files(str(model))
    press(page, page.get_by_role("button", name="Upload", exact=True))
    page.wait_for_url(re.compile(r"/programs/"), timeout=PATIENT)  # compiled at once; the report follows by itself
    return _accepted(page)


def _accepted(page: Page) -> str:
    """From the report: a quote, accepted."""
    press(page, page.locator("a[href*='/quotes/new?program=']").first)
    page.wait_for_url(re.compile(r"/quotes/new"))
    _priced(page)
    press(page, page.locator("#offer .offer-make").first.get_by_role("button", name="Make this quote"))
    page.wait_for_url(re.compile(r"/quotes/[0-9a-f-]{36}"))
    press(page, page.get_by_role("link", name=re.compile("^Accept")).first)
    press(page, page.get_by_role("button", name=re.compile("^Accept for")))
    page.wait_for_url(re.compile(r"/contracts/[0-9a-f-]{36}"))
    return path_of(page)


def _priced(page: Page) -> None:
    """Volume by the slider and by the box, the class by the arrows; the focus stays where it is while the price changes."""
    slider, box = page.locator("#id_volume_slider"), page.locator("#id_volume")
    write(page, box, "2000")
    reach(page, slider)
    page.keyboard.press("ArrowRight")
    expect(box).to_have_value("5000")
    expect(page.locator("#offer input[name=volume][value='5000']").first).to_be_attached()
    chosen = page.locator("input[name=klass]:checked")
    reach(page, chosen)
    before = chosen.get_attribute("value")
    page.keyboard.press("ArrowDown")
    expect(page.locator(f"#offer input[name=klass]:not([value='{before}'])").first).to_be_attached()
    expect(page.locator(".htmx-request")).to_have_count(0)
    page.wait_for_timeout(300)
    expect(page.locator("input[name=klass]:checked")).to_be_focused()
