"""The file format of `takt measure`: structure, digest, percentiles and rates.

A document has no floats. Decimal fractions are strings, because not every JSON reader preserves floats exactly.
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
    """Return the SHA-256 digest of the document without `digest`, as JSON with sorted keys, no spaces and ASCII escapes."""
    told = {name: value for name, value in document.items() if name != "digest"}
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def nearest_rank(ordered: Sequence[int], percent: int) -> int:
    """Return the nearest-rank percentile of a sorted list."""
    rank = -(-percent * len(ordered) // 100)
    return ordered[max(rank, 1) - 1]


def rate_text(items: int, wall_ns: int) -> str:
    """Return the rate in items per second as text, rounded down to six decimal places."""
    scaled = Fraction(items * NANOSECONDS, wall_ns) * 10**RATE_PLACES // 1
    whole, part = divmod(scaled, 10**RATE_PLACES)
    return f"{whole}.{part:0{RATE_PLACES}d}"
