"""The loading of programs, as described in quotes and contracts.

Every window begins with loading, because a device holds one program at a time. No price book charges for loading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from apps.figures import bytes_format, duration_format
from apps.fleet.models import Pool
from apps.sales.request_lines import QuoteRequestLine


def loading_json(request_lines: Sequence[QuoteRequestLine], pool: Pool) -> dict[str, Any]:
    """Return a dictionary with the key `loading`, for a document.

    The dictionary is empty for hosts, for quotas, and for programs without loading data.
    """
    loads = [request_line.snapshot.load for request_line in request_lines if request_line.snapshot.load is not None]
    if pool.is_host or not loads:
        return {}
    seconds = sum((request_line.snapshot.load_seconds for request_line in request_lines), Fraction(0)) * pool.slowdown
    loading = {
        "bytes": sum(load["bytes_in"] for load in loads),
        "cycles": sum(load["cycles_in"] for load in loads),
        "seconds": str(seconds),
        "reserved": "once in each window",
        "charged": False,
    }
    return {"loading": loading}


def loading_sentence(loading: Mapping[str, Any]) -> str:
    """Describe the entry `loading` in words."""
    return (
        f"{bytes_format(loading['bytes'])} over the link, {duration_format(Fraction(loading['seconds']))} before the first item "
        "in each window; reserved and not charged"
    )


def loading_assumptions(request_lines: Sequence[QuoteRequestLine], pool: Pool) -> list[str]:
    """Return the assumptions about loading, as sentences."""
    if any(request_line.snapshot.is_quota for request_line in request_lines):
        return ["Loading: a quota names no programs, so no loading time is reserved or charged."]
    found = loading_json(request_lines, pool)
    return [f"Loading: {loading_sentence(found['loading'])}."] if found else []
