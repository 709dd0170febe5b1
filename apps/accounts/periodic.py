"""Entries of an app's periodic schedule (`apps/<app>/schedule.py`)."""

from __future__ import annotations

from typing import Any

HOUR = 3600.0


def every(seconds: float, task: str, *, queue: str = "default", expires: float | None = None) -> dict[str, Any]:
    """Return a schedule entry that runs `task` every `seconds`.

    A message that no worker picks up within `expires` seconds is dropped. The default of `expires` is `seconds`.
    """
    return {"task": task, "schedule": seconds, "options": {"queue": queue, "expires": int(expires or seconds)}}
