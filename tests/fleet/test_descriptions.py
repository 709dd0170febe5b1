"""Processors in words: the figures of the file, none left out, and rates that follow from them."""

from __future__ import annotations

import pytest

from apps.fleet import descriptions
from compiler import targets

EVERY = targets.names()


@pytest.mark.parametrize("name", EVERY)
def test_every_figure_of_the_file_is_shown_once_with_its_kind(name: str) -> None:
    target = targets.load(name)
    shown = [one.path for part in (*descriptions.parts(target), *descriptions.others(target)) for one in part.figures]
    assert sorted(shown) == sorted(target.figures)
    assert sum(number for _, _, number in descriptions.sources(target)) == len(target.figures)


def test_the_peak_is_what_the_planes_multiply_in_a_second() -> None:
    assert descriptions.peak(targets.load("systolic"), "i8") == 2 * 256 * 256 * 700_000_000  # 92 TOPS, as published
    assert descriptions.peak(targets.load("systolic"), "f32") is None


def test_processors_are_set_side_by_side() -> None:
    known = [targets.load(name) for name in EVERY]
    rows = dict(descriptions.comparison(known))
    assert all(len(cells) == len(known) for cells in rows.values())
    place = EVERY.index("systolic")
    assert rows["Peak, float32"][place] == "vector unit only"
    assert rows["External memory"][EVERY.index("lpu")] == "none"


def test_a_unit_that_the_processor_lacks_is_not_drawn() -> None:
    assert "external" not in {part.key for part in descriptions.parts(targets.load("lpu"))}
    assert "external" in {part.key for part in descriptions.parts(targets.load("systolic"))}
