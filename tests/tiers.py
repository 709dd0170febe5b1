"""How much of the tests runs: the part for every change, or the whole of it (`make test-all`); see ADR 0094.

A test marked `thorough` runs only in the whole. A random test takes `some(N)` examples: all of them in the whole, a part
for every change. Hypothesis draws afresh each time, so that many changes together try as much as one whole run.
"""

from __future__ import annotations

import os

WHOLE = os.environ.get("TAKT_TESTS") == "whole"
PART = 4


def some(examples: int) -> int:
    """The number of examples of a random test: `examples` in the whole, a quarter of them (at least one) otherwise."""
    return examples if WHOLE else max(1, examples // PART)
