"""What runs now and for how long, on standard error: one line that is written over on a terminal, else a line a stage."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from compiler.driver import quiet

SECONDS = 0.2  # between two writings of a terminal's line; what ends sooner leaves no trace


@contextmanager
def shown(wanted: bool | None) -> Iterator[Callable[[str], None]]:
    """What hears the name of each stage as it begins. ``wanted``: None says nothing but on a terminal."""
    terminal = sys.stderr is not None and sys.stderr.isatty()
    if not (terminal or wanted):
        yield quiet
        return
    began, stages, ended = time.monotonic(), ["start"], threading.Event()

    def line() -> str:
        return f"{stages[-1]}, {time.monotonic() - began:.1f} s"

    def heard(stage: str) -> None:
        stages.append(stage)
        if not terminal:
            sys.stderr.write(f"{line()}\n")

    def tick() -> None:
        while not ended.wait(SECONDS):
            sys.stderr.write(f"\r\x1b[K{line()}")
            sys.stderr.flush()

    ticking = threading.Thread(target=tick, daemon=True)
    if terminal:
        ticking.start()
    try:
        yield heard
    finally:
        ended.set()
        if terminal:
            ticking.join()
            sys.stderr.write("\r\x1b[K")
