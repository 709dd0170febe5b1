"""Finds Chromium for the browser tests, or installs it (root on Debian), or asks for it in one sentence."""

from __future__ import annotations

import os
import shutil
import subprocess

from tests.browser import NAMES


def ensure() -> str | None:
    """Return None when Chromium is installed, else the sentence that says how to get it.

    Root on Debian gets the one without windows even if another is there: the tests take less time with it.
    """
    if shutil.which(NAMES[0]):
        return None
    if os.geteuid() == 0 and shutil.which("apt-get"):
        print("installing Chromium", flush=True)
        _install()
    if any(shutil.which(name) for name in NAMES):
        return None
    return "The browser tests need Chromium; as root, run: apt-get install chromium"


def _install() -> None:
    """Try the browser without windows, which a distribution may not have, then the other one if there is none yet."""
    if _apt("install", NAMES[0]) or (_apt("update") and _apt("install", NAMES[0])):
        return
    if not any(shutil.which(name) for name in NAMES):
        _apt("install", NAMES[1])


def _apt(action: str, *packages: str) -> bool:
    quick = ["-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=10", "-o", "Acquire::https::Timeout=10"]
    options = ["-y", "--no-install-recommends", "fonts-dejavu-core"] if packages else []
    command = ["apt-get", action, "-qq", *quick, *options, *packages]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return (
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
    )
