"""Finds Chromium for the browser tests, or installs it (root on Debian), or asks for it in one sentence."""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.browser import NAMES


def ensure() -> str | None:
    """Return None when Chromium is installed, else the sentence that says how to get it."""
    if any(shutil.which(name) for name in NAMES):
        return None
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing Chromium", flush=True)
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], env=quiet, stdout=subprocess.DEVNULL, check=False)
        for package in NAMES[:2]:  # a distribution may have no browser without windows
            install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package, "fonts-dejavu-core"]
            subprocess.run(install, env=quiet, stdout=subprocess.DEVNULL, check=False)
            if any(shutil.which(name) for name in NAMES):
                return None
    return "The browser tests need Chromium; as root, run: apt-get install chromium"
