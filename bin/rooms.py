"""Draws docs/engineering/rooms.svg from the layers in pyproject.toml and the table of the architecture page: `make rooms`."""

from __future__ import annotations

import re
import sys
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "engineering" / "architecture.md"
PICTURE = PAGE.with_name("rooms.svg")

WIDTH, ROW, BOX, MARGIN, NAME_WIDTH = 940, 42, 34, 24, 150
GROUPS = {  # what belongs together, by colour
    "#e8eefc": ("config", "pages", "reports"),
    "#e3f4ea": ("portal", "notifications", "collection", "invoicing"),
    "#fdf0dc": ("dispatch", "sales", "ledger"),
    "#f3e8fb": ("planner", "timetable", "pricing", "compilation"),
}
OTHER = "#eceff3"


def main() -> int:
    """Write the picture."""
    PICTURE.write_text(picture(rooms(), purposes()), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
    return 0


def rooms() -> list[str]:
    """Return the rooms from the highest to the lowest, as import-linter checks them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers: list[str] = next(one["layers"] for one in contracts if one["type"] == "layers")
    return [name.removeprefix("apps.") for name in layers]


def purposes() -> dict[str, str]:
    """Return what each room is for, from the table of the architecture page."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## The rooms\n")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| \[(\w+)\]\([^)]*\) \| ([^|]+) \|$", section, flags=re.MULTILINE)
    return {name: text.strip().replace("`", "") for name, text in rows}


def picture(names: list[str], texts: dict[str, str]) -> str:
    """Return the SVG: one box for each room, the highest first."""
    height = MARGIN * 2 + ROW * len(names) + 24
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="system-ui, sans-serif" font-size="14">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for place, name in enumerate(names):
        top = MARGIN + place * ROW
        colour = next((colour for colour, group in GROUPS.items() if name in group), OTHER)
        lines += [
            f'<rect x="60" y="{top}" width="{WIDTH - 84}" height="{BOX}" rx="6" fill="{colour}" stroke="#c4cbd6"/>',
            f'<text x="76" y="{top + 22}" font-weight="600" fill="#16202e">{escape(name)}</text>',
            f'<text x="{76 + NAME_WIDTH}" y="{top + 22}" fill="#3b4656">{escape(texts.get(name, ""))}</text>',
        ]
    end = MARGIN + ROW * len(names) - (ROW - BOX)
    arrow = f"M36 {MARGIN} V{end - 6} M30 {end - 14} L36 {end - 2} L42 {end - 14}"
    lines += [
        f'<path d="{arrow}" fill="none" stroke="#3b4656" stroke-width="2"/>',
        f'<text x="60" y="{end + 26}" fill="#3b4656">A room imports only rooms below it.</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
