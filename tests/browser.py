"""Where Chromium is, and the flags that make it quiet."""

from __future__ import annotations

import os
import shutil

# The first is the same engine without the parts that draw windows: it takes half of the processor time.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # No script of a test runs for long: to optimise it takes a sixth of the processor time, and gives back less.
    "--js-flags=--max-optimized-bytecode-size=0",
]


def path() -> str:
    """The browser of the system; the message names the command that installs it."""
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return found
    raise RuntimeError("Chromium is missing: as root, run: apt-get install chromium")


def arguments() -> list[str]:
    """Chromium refuses its own sandbox as root."""
    return [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else FLAGS
