"""An entry of an app's periodic schedule (`apps/<app>/schedule.py`)."""

from __future__ import annotations

from typing import Any

HOUR = 3600.0


def every(seconds: float, task: str, *, queue: str = "default", expires: float | None = None) -> dict[str, Any]:
    """Run `task` every `seconds`. A message that no worker picks up within `expires` (default: `seconds`) is dropped."""
    return {"task": task, "schedule": seconds, "options": {"queue": queue, "expires": int(expires or seconds)}}
