"""What a visitor of the running product sees: every page on a phone, what is wrong with it, and where its links lead."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser

from tests.e2e import visit as visiting
from tests.e2e.places import Places
from tests.e2e.product import Product

LINKS = "links => links.map(link => link.getAttribute('href').split('#')[0])"


@dataclass
class Walked:
    """The running product, the browser, and where the walk has been."""

    product: Product
    browser: Browser
    places: Places

    def member(self, **options: object) -> visiting.Watched:
        """A page of the customer who walked."""
        profile = visiting.context(self.browser, state=self.places.member_state, **options)  # type: ignore[arg-type]
        return visiting.watched(profile, self.product.url)


@dataclass
class Seen:
    """What a look at every page found: what is wrong on a phone, and for each visitor the links, each with a page that shows
    it."""

    on_a_phone: list[str] = field(default_factory=list)
    links: list[tuple[Any, dict[str, str]]] = field(default_factory=list)


def see_all(walked: Walked) -> Seen:
    """Every page as its visitor sees it on a phone, opened once."""
    found = Seen()
    for state, pages in walked.places.groups():
        profile = visiting.context(walked.browser, size=visiting.PHONE, state=state)
        visit = visiting.watched(profile, walked.product.url)
        shown: dict[str, str] = {}
        for name, path in pages.items():
            visit.open(path)
            found.on_a_phone += [f"{name}: {one}" for one in faults_of(visit, contrast=False)]
            for link in visit.page.locator("a[href^='/'], link[href^='/']").evaluate_all(LINKS):
                shown.setdefault(link, name)
        found.links.append((state, shown))
        profile.close()
    return found


def faults_of(visit: visiting.Watched, *, contrast: bool) -> list[str]:
    """What is wrong with the page as it is shown: its overflow, findings of axe-core (about contrast, or about all else), and
    the console's words."""
    found = [f"{part} sticks out" for part in visit.overflow()]
    found += [
        f"{one['id']} ({one['help']}) at {one['where']}: {one['why']}" for one in visit.barriers(contrast=contrast)
    ]
    return [*found, *visit.noted()]
