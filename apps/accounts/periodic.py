"""Entries of an app's periodic schedule."""

from __future__ import annotations

from typing import Any

HOUR = 3600.0


def every(seconds: float, task: str, *, queue: str = "default", expires: float | None = None) -> dict[str, Any]:
    """Return a schedule entry that runs `task` every `seconds`.

    Messages that wait longer than `expires` seconds (default: `seconds`) are dropped.
    """
    return {"task": task, "schedule": seconds, "options": {"queue": queue, "expires": int(expires or seconds)}}
