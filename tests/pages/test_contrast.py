"""The colours of static/css/tokens.css keep WCAG AA, light and dark: 4.5 for text, 3 for controls and charts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

CSS = (Path(__file__).resolve().parents[2] / "static" / "css" / "tokens.css").read_text()
TEXT, SHAPE, TRACK = 4.5, 3.0, 1.5
GROUNDS = ("ground", "surface", "surface-2")
STATES = ("ok", "wait", "busy", "bad", "note")
HEAT = {1: 0.18, 2: 0.27, 3: 0.36, 4: 0.46, 5: 0.90, 6: 1.0}  # shares of chart-1 in static/css/components.css
ON_HEAT = {"light": "#ffffff", "dark": "#06201e"}


def _block(selector: str) -> dict[str, str]:
    start = CSS.index(selector)
    return dict(re.findall(r"--([\w-]+):\s*(#[0-9a-f]{6})", CSS[start : CSS.index("}", start)]))


LIGHT = _block(':root, [data-bs-theme="light"]') | _block(":root, [data-bs-theme] {")
THEMES = {"light": LIGHT, "dark": LIGHT | _block('[data-bs-theme="dark"] {')}


def _channels(colour: str) -> list[int]:
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]


def _luminance(colour: str) -> float:
    shares = [channel / 255 for channel in _channels(colour)]
    linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def ratio(one: str, other: str) -> float:
    """The contrast ratio of two colours, from 1 to 21 (WCAG 2.1)."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _mixed(colour: str, ground: str, share: float) -> str:
    pairs = zip(_channels(colour), _channels(ground), strict=True)
    return "#" + "".join(f"{round(one * share + other * (1 - share)):02x}" for one, other in pairs)


@pytest.mark.parametrize("theme", THEMES)
def test_text_can_be_read_on_every_ground(theme: str) -> None:
    colours = THEMES[theme]
    pairs = [(text, ground) for text in ("ink", "ink-2", "accent-ink") for ground in GROUNDS]
    pairs += [(state, ground) for state in STATES for ground in (f"{state}-soft", "surface", "ground")]
    pairs += [
        ("on-accent", "accent"),
        ("on-accent", "accent-hover"),
        ("ink", "accent-soft"),
        ("accent-ink", "accent-soft"),
    ]
    pairs += [(text, ground) for text in ("rail-ink", "rail-ink-2") for ground in ("rail-ground", "rail-hover")]
    assert [pair for pair in pairs if ratio(*(colours[name] for name in pair)) < TEXT] == []


@pytest.mark.parametrize("theme", THEMES)
def test_controls_and_charts_stand_out_from_their_ground(theme: str) -> None:
    colours = THEMES[theme]
    pairs = [("line-control", ground) for ground in GROUNDS] + [("rail-control", "rail-hover")]
    pairs += [(f"chart-{number}", "surface") for number in range(1, 9)]
    pairs += [("accent-ink", ground) for ground in GROUNDS]  # the ring around what has the focus
    assert [pair for pair in pairs if ratio(*(colours[name] for name in pair)) < SHAPE] == []


@pytest.mark.parametrize("theme", THEMES)
def test_the_empty_part_of_a_bar_is_seen_beside_its_card_and_its_full_part(theme: str) -> None:
    colours = THEMES[theme]
    assert ratio(colours["track"], colours["surface"]) >= TRACK
    assert [name for name in ("chart-1", "bad") if ratio(colours[name], colours["track"]) < SHAPE] == []


@pytest.mark.parametrize("theme", THEMES)
def test_numbers_can_be_read_on_every_step_of_a_heat_map(theme: str) -> None:
    colours = THEMES[theme]
    for step, share in HEAT.items():
        ground = _mixed(colours["chart-1"], colours["surface"], share)
        assert ratio(colours["ink"] if step < 5 else ON_HEAT[theme], ground) >= TEXT, step
