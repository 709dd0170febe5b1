"""The demo's owner at a running server, by the typed client."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from takt import Client, Refused, Unreachable

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "var" / "demo.json"
PATIENCE = 600.0  # seconds; a busy machine compiles slowly


def demo_client(path: Path = DEMO) -> Client:
    """The demo's owner at the server that `make run` has started. SystemExit with a sentence when there is none."""
    try:
        demo = json.loads(path.read_text())
        client = Client(demo["url"], demo["token"], timeout=120.0)
        client.me()
    except (OSError, ValueError, KeyError, Unreachable) as error:
        raise SystemExit(f"No server answers as {path} says ({error}); start one with `make run`.") from error
    except Refused as error:
        raise SystemExit(
            f"The server of {path} refuses its token ({error}); start it again with `make run`."
        ) from error
    return client


def wait_for(what: str, found: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """What `found` answers, as soon as it is true. Raises TimeoutError."""
    deadline, pause = time.monotonic() + seconds, 0.2
    while True:
        answer = found()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: nothing after {seconds:.0f} s")
        time.sleep(pause)
        pause = min(pause * 1.5, 3.0)
