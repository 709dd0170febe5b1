"""The file that `takt measure` writes: its format, the digest over itself, its percentiles and rates.

Belongs to no room and knows none, so that what writes the file and what reads it count alike. A document holds whole numbers,
texts, lists and objects: a decimal fraction is a text, since a float reads differently on another machine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

FORMAT = "takt-measurement/1"
NANOSECONDS = 10**9
RATE_PLACES = 6


def document_digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of the document without its `digest`, as JSON with sorted keys, no spaces and escapes for all but ASCII."""
    told = {name: value for name, value in document.items() if name != "digest"}
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def nearest_rank(ordered: Sequence[int], percent: int) -> int:
    """The smallest value of a sorted list that at least `percent` per cent of its values do not exceed."""
    rank = -(-percent * len(ordered) // 100)
    return ordered[max(rank, 1) - 1]


def rate_text(items: int, wall_ns: int) -> str:
    """Items a second, rounded down to six places."""
    scaled = Fraction(items * NANOSECONDS, wall_ns) * 10**RATE_PLACES // 1
    whole, part = divmod(scaled, 10**RATE_PLACES)
    return f"{whole}.{part:0{RATE_PLACES}d}"
