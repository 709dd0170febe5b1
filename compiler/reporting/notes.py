"""A binary's notes as data: what reports show beside what is counted. A damaged file's may be anything."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from compiler.errors import ModelError

# A type; a list of one kind; a tuple (a list of just these); the fields that a table must have.
Kind = type | list["Kind"] | tuple["Kind", ...] | dict[str, "Kind"]

KINDS: dict[str, Kind] = {
    "model": str,
    "precision": str,
    "objective": str,
    "metadata": dict,
    "bounds": dict,
    "arena_bound": int,
    "critical": [int],
    "rows": [{"kind": str, "source": [str]}],
    "buffers": [(str, str, int, int, int, int)],
    "weights": [int],
    "external": [int],
    "edges": [(int, int)],
    "accuracy": dict,
}
BOUNDS: dict[str, type] = {"latency": int, "interval": int, "latency_limit": str, "interval_limit": str}
PER_SOURCE = ("critical", "weights", "external")


@lru_cache(maxsize=8)
def notes_of(text: str, sources: int) -> dict[str, Any]:
    """The notes of a binary with so many sources; empty where it has none, ``ModelError`` where they make no sense."""
    if not text:
        return {}
    try:
        found = json.loads(text)
        combined = json.loads(found["metadata"].get("combined", "[]")) if "metadata" in found else []
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise _damaged("are no table") from None
    if not isinstance(found, dict):
        raise _damaged("are no table")
    _check(found, sources)
    stated = found.get("metadata", {}).get("dims", "")
    dims = {name: int(size) for name, size in re.findall(r"(.+?)=([0-9]{1,18})(?:, |$)", str(stated))}
    return found | {"combined": combined, "dims": dims}


def _check(found: dict[str, Any], sources: int) -> None:
    for name, kind in KINDS.items():
        if name in found and not _is(found[name], kind):
            raise _damaged(f"have {name} of another kind")
    if any(len(found.get(name) or range(sources)) != sources for name in PER_SOURCE):
        raise _damaged("belong to other operations")
    if not all(_is(found.get("bounds", {}).get(name, kind()), kind) for name, kind in BOUNDS.items()):
        raise _damaged("have bounds of another kind")


def _is(value: Any, kind: Kind) -> bool:
    if isinstance(kind, list):
        return isinstance(value, list) and all(_is(v, kind[0]) for v in value)
    if isinstance(kind, tuple):
        return isinstance(value, list) and len(value) == len(kind) and all(map(_is, value, kind))
    if isinstance(kind, dict):
        return isinstance(value, dict) and all(name in value and _is(value[name], k) for name, k in kind.items())
    return isinstance(value, kind) and not isinstance(value, bool)


def _damaged(how: str) -> ModelError:
    return ModelError(f"not a valid program: its notes {how}; compile the model again")
