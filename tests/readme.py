"""`python3 bin/dev.py screens readme`: the pictures of the README taken again, into docs/images/."""

from __future__ import annotations

from io import BytesIO

from PIL import Image

from bin.models import fetch
from tests.e2e import visit as visiting
from tests.e2e import walk
from tests.e2e.places import LENGTHS, REAL_MODEL
from tests.e2e.product import ROOT, running_product

FOLDER = ROOT / "docs" / "images"
VOLUME = 10**9  # executions: enough that the price is not the contract's minimum
MARGIN = 12  # pixels around a part of a page
SETTLE = 800  # milliseconds, for charts that draw after the load


def main() -> int:
    """Compile the model of the walk for two processors and take its report, its schedule and memory, and a quote's prices."""
    with running_product() as product, visiting.chromium() as opened:
        visit = visiting.watched(visiting.context(opened, size={"width": 1440, "height": 1000}), product.url)
        walk.sign_up(visit, name="Wanda", email="wanda@example.com")
        version = walk.upload(visit, fetch(REAL_MODEL))
        walk.compile_for(visit, version, ["lpu", "lpu2"], lengths=LENGTHS)
        report = walk.program_of(visit, version, "lpu")
        visit.page.wait_for_timeout(SETTLE)
        _keep("report", visit.page.screenshot())
        _keep("timeline", _parts(visit, "#timeline", "#memory"))
        visit.open(f"/quotes/new?program={report.rsplit('/', 1)[-1]}&volume={VOLUME}")
        _keep("quote", _parts(visit, "#offer", "#offer"))
    return 0


def _parts(visit: visiting.Watched, first: str, last: str) -> bytes:
    """A picture of the page from one part to another, with a margin."""
    page = visit.page
    page.set_viewport_size({"width": 1440, "height": page.evaluate("document.documentElement.scrollHeight")})
    page.wait_for_timeout(SETTLE)
    top, bottom = page.locator(first).bounding_box(), page.locator(last).bounding_box()
    assert top is not None
    assert bottom is not None
    height = bottom["y"] + bottom["height"] - top["y"]
    return page.screenshot(
        clip={
            "x": top["x"] - MARGIN,
            "y": top["y"] - MARGIN,
            "width": top["width"] + 2 * MARGIN,
            "height": height + 2 * MARGIN,
        }
    )


def _keep(name: str, picture: bytes) -> None:
    """Write it with 256 colours, which these pages need no more of: a third of the bytes."""
    path = FOLDER / f"{name}.png"
    Image.open(BytesIO(picture)).convert("RGB").quantize(256).save(path, optimize=True)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")
