"""How much of the tests runs: the part for every change, or the whole of it (`make test-all`); see ADR 0094.

A test marked `thorough` runs only in the whole. A random test takes `some(N)` examples, a test over a long list a `part` of
it. Hypothesis draws afresh each time, so that many changes together try as much as one whole run.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

WHOLE = os.environ.get("TAKT_TESTS") == "whole"
PART = 4
T = TypeVar("T")


def some(examples: int) -> int:
    """The number of examples of a random test: `examples` in the whole, a quarter of them (at least one) otherwise."""
    return examples if WHOLE else max(1, examples // PART)


def part(items: Iterable[T], *, every: int = PART) -> list[T]:
    """All items in the whole, else the first of each `every` in a row."""
    return list(items) if WHOLE else list(items)[::every]
