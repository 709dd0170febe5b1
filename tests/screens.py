"""`make screens`: every page at 1440 pixels, at 390 pixels and dark, as pictures in var/screens/.

`python3 bin/dev.py screens readme` takes the pictures of the README again instead.
"""

from __future__ import annotations

import sys

from tests import readme
from tests.e2e import visit as visiting
from tests.e2e.places import make_places
from tests.e2e.product import ROOT, running_product

FOLDER = ROOT / "var" / "screens"
MODES = (("wide", visiting.WIDE, False), ("phone", visiting.PHONE, False), ("dark", visiting.WIDE, True))
SETTLE = 500  # milliseconds, for charts that draw after the load


def main() -> int:
    """Walk once, then take the pictures; prints where they are and what the pages complained about."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.glob("*.png"):
        old.unlink()
    with running_product() as product, visiting.chromium() as opened:
        places = make_places(opened, product)
        complaints = list(places.console)
        for mode, size, dark in MODES:
            for state, pages in places.groups():
                complaints += _pictures(opened, product.url, pages, mode=mode, size=size, dark=dark, state=state)
    for complaint in complaints:
        print(complaint)
    print(f"{len(list(FOLDER.glob('*.png')))} pictures in {FOLDER.relative_to(ROOT)}")
    return 1 if complaints else 0


def _pictures(
    opened: visiting.Browser,
    url: str,
    pages: dict[str, str],
    *,
    mode: str,
    size: dict[str, int],
    dark: bool,
    state: object,
) -> list[str]:
    """One picture of each page in one mode; returns what was wrong."""
    profile = visiting.context(opened, size=size, dark=dark, state=state)
    visit = visiting.watched(profile, url)
    wrong: list[str] = []
    for name, path in pages.items():
        visit.open(path)
        visit.page.wait_for_timeout(SETTLE)
        _unfold(visit)
        visit.page.screenshot(path=str(FOLDER / f"{name}-{mode}.png"), full_page=True)
        wrong += [f"{name} {mode}: {part} sticks out" for part in visit.overflow()]
        wrong += visit.noted()
    profile.close()
    return wrong


def _unfold(visit: visiting.Watched) -> None:
    """The graph is drawn only once it is in view."""
    graph = visit.page.locator("#graph-stage")
    if graph.count():
        graph.scroll_into_view_if_needed()
        visit.page.wait_for_selector("#graph-stage svg")
        visit.page.evaluate("scrollTo(0, 0)")


if __name__ == "__main__":
    sys.exit(readme.main() if sys.argv[1:] == ["readme"] else main())
