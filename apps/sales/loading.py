"""Loading as quotes and contracts say it: what crosses the link before the first item, how long it takes, and that it is free.

A window that is sold begins with it, since a device holds one program at a time. No price book charges for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from apps.figures import bytes_format, duration_format
from apps.fleet.models import Pool
from apps.sales.asks import Ask


def loading_json(asks: Sequence[Ask], pool: Pool) -> dict[str, Any]:
    """The document's entry `loading`; absent where nothing is loaded over a link, or nothing is known of it: a host, a quota,
    programs that were quoted before loading was counted."""
    loads = [ask.facts.load for ask in asks if ask.facts.load is not None]
    if pool.is_host or not loads:
        return {}
    seconds = sum((ask.facts.load_seconds for ask in asks), Fraction(0)) * pool.slowdown
    loading = {
        "bytes": sum(load["bytes_in"] for load in loads),
        "cycles": sum(load["cycles_in"] for load in loads),
        "seconds": str(seconds),
        "reserved": "once in each window",
        "charged": False,
    }
    return {"loading": loading}


def loading_said(loading: Mapping[str, Any]) -> str:
    """The entry in words, without the name of what it describes."""
    return (
        f"{bytes_format(loading['bytes'])} over the link, {duration_format(Fraction(loading['seconds']))} before the first item "
        "in each window; reserved and not charged"
    )


def loading_assumptions(asks: Sequence[Ask], pool: Pool) -> list[str]:
    """The same as a sentence of the quote."""
    if any(ask.facts.is_quota for ask in asks):
        return ["Loading: a quota names no programs, so no time is reserved for loading them, and none is charged."]
    found = loading_json(asks, pool)
    return [f"Loading: {loading_said(found['loading'])}."] if found else []
