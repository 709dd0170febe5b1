"""A browser that watches: whatever a page writes to its console, lets overflow or hides from some readers is noted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import connections
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, expect, sync_playwright

from tests import browser

WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
PATIENCE = 20_000  # milliseconds until a part must be there: the machine may be busy with other tests
BARRIERS = {"moderate", "serious", "critical"}
OVERFLOW = """() => {
  const root = document.documentElement;
  if (root.scrollWidth <= root.clientWidth) return [];
  const limit = root.clientWidth + 0.5;
  return Array.from(document.querySelectorAll('body *')).filter(part => part.getBoundingClientRect().right > limit)
    .slice(-5).map(part => part.tagName.toLowerCase() + '.' + (part.getAttribute('class') || '') + ' ' + part.id);
}"""
CONTRAST = "color-contrast"
AXE = """async options => (await axe.run(document, {resultTypes: ['violations'], ...options})).violations.map(
  found => ({id: found.id, impact: found.impact, help: found.help,
             where: found.nodes.slice(0, 3).map(node => node.target.join(' ')),
             why: found.nodes.slice(0, 2).map(node => node.failureSummary)}))"""


@dataclass
class Watched:
    """A page and what was wrong with it."""

    page: Page
    base: str
    errors: list[str] = field(default_factory=list)

    def open(self, path: str, *, status: int = 200) -> None:
        """Go to `path` of the product and let it settle."""
        answer = self.page.goto(self.base + path)
        assert answer is not None
        assert answer.status == status, f"{path} answered {answer.status}"
        self.page.wait_for_load_state("load")

    def show(self, *, size: dict[str, int], dark: bool) -> None:
        """Show the page that is open and those to come at this size, in the light or in the dark, as if the system had been
        turned to it."""
        self.page.set_viewport_size(size)  # type: ignore[arg-type]
        self.page.emulate_media(color_scheme="dark" if dark else "light")

    def drawn(self) -> None:
        """Wait until the page is drawn as it is to be shown now."""
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def noted(self) -> list[str]:
        """What went wrong since the last time this was asked."""
        found, self.errors[:] = list(self.errors), []
        return found

    def overflow(self) -> list[str]:
        """The parts that stick out at the right; empty when the page fits."""
        found: list[str] = self.page.evaluate(OVERFLOW)
        return found

    def barriers(self, *, contrast: bool | None = None) -> list[dict[str, Any]]:
        """Return axe-core's moderate, serious and critical findings: by all its rules, by the one about contrast alone, or by
        all but that one, which takes as long as all others together."""
        options: dict[str, Any] = {}
        if contrast is not None:
            options = {"runOnly": [CONTRAST]} if contrast else {"rules": {CONTRAST: {"enabled": False}}}
        if not self.page.evaluate("'axe' in window"):
            self.page.add_script_tag(url=f"{self.base}/static/vendor/axe.min.js")
        found: list[dict[str, Any]] = self.page.evaluate(AXE, options)
        return [one for one in found if one["impact"] in BARRIERS]


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window.

    Inside, Django's connections are those of the browser's event loop. They outlive it, and what an earlier test left may
    have been ended by the server since: each browser starts without any and leaves none.
    """
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        _disconnect()
        opened = playwright.chromium.launch(executable_path=browser.path(), args=browser.arguments())
        try:
            yield opened
        finally:
            _disconnect()
            opened.close()


def _disconnect() -> None:
    if settings.configured:  # the product that is walked through runs elsewhere, and who walks may know no settings
        connections.close_all()


def context(
    opened: Browser, *, size: dict[str, int] | None = None, dark: bool = False, state: Any = None
) -> BrowserContext:
    """A fresh profile, or one that is signed in by another's `state`."""
    made = opened.new_context(
        viewport=size or WIDE,  # type: ignore[arg-type]
        color_scheme="dark" if dark else "light",
        storage_state=state,
        reduced_motion="reduce",
        timezone_id="Europe/Berlin",
        locale="en-GB",
    )
    made.set_default_timeout(PATIENCE)
    return made


def watched(made: BrowserContext, base: str) -> Watched:
    """A page whose console is read."""
    page = made.new_page()
    found = Watched(page, base)

    def note(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            found.errors.append(f"{page.url}: {message.type}: {message.text}")

    page.on("console", note)
    page.on("pageerror", lambda error: found.errors.append(f"{page.url}: {error}"))
    return found
