"""Every page can be used without seeing it: landmarks, headings in order, names of their own, unique ids."""

from __future__ import annotations

from collections import Counter
from html.parser import HTMLParser

import pytest
from django.db import transaction

from tests import tenancy
from tests.cast import Browsers, Cast
from tests.tenancy import Route

PAGES = [route for route in tenancy.declared() if route.method == "GET" and not route.is_api and not route.step]
pytestmark = pytest.mark.django_db


class Outline(HTMLParser):
    """What a screen reader lists of a page: its landmarks, its headings and the ids that names refer to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.levels: list[int] = []
        self.landmarks: list[tuple[str, str]] = []
        self.ids: Counter[str] = Counter()
        self.labels: set[str] = set()
        self._dialogs = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids[given["id"]] += 1
        self.labels |= set(given.get("aria-labelledby", "").split())
        if tag == "dialog":
            self._dialogs += 1
        if self._dialogs:
            return
        if tag in {"h1", "h2", "h3", "h4", "h5", "h6"}:
            self.levels.append(int(tag[1]))
        if tag in {"main", "nav", "aside"} or given.get("role") == "search":
            name = given.get("aria-label") or given.get("aria-labelledby") or ""
            self.landmarks.append(("search" if given.get("role") == "search" else tag, name))

    def handle_endtag(self, tag: str) -> None:
        if tag == "dialog":
            self._dialogs -= 1

    def faults(self) -> list[str]:
        """What is wrong, in words."""
        found = []
        kinds = Counter(kind for kind, _ in self.landmarks)
        if kinds["main"] != 1:
            found.append(f"{kinds['main']} main landmarks")
        if self.levels.count(1) != 1:
            found.append(f"{self.levels.count(1)} headings of the first level")
        jumps = [pair for pair in zip(self.levels, self.levels[1:], strict=False) if pair[1] > pair[0] + 1]
        found += [f"heading {after} follows heading {before}" for before, after in jumps[:3]]
        navs = Counter(name for kind, name in self.landmarks if kind == "nav")
        found += [
            f"navigation without a name of its own: {name!r}" for name, count in navs.items() if count > 1 or not name
        ]
        found += [f"the id {name} is given {count} times" for name, count in self.ids.items() if count > 1]
        found += [f"no element has the id {name}, which gives a name" for name in self.labels - set(self.ids)]
        return found


@pytest.fixture(scope="module")
def browsers(shared_cast: Cast) -> Browsers:
    return Browsers(shared_cast)


@pytest.mark.parametrize("route", PAGES, ids=[route.path for route in PAGES])
def test_every_page_has_landmarks_and_headings_in_order(cast: Cast, browsers: Browsers, route: Route) -> None:
    user = cast.admin if route.admin else cast.owner
    client = browsers(None if route.public and route.path in {"/sign-in", "/sign-up"} else user)
    with transaction.atomic():
        answer = client.get(route.address(route.make(cast) if route.make else {}))
    if answer.status_code != 200 or not answer["Content-Type"].startswith("text/html") or answer.streaming:
        return
    page = answer.content.decode()
    if "<html" in page:  # and no part of one
        assert Outline(page).faults() == []
