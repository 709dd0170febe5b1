"""`make audit`: known faults of the locked packages, where a database of advisories can be reached."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOCKS = ("requirements.lock", "docker/requirements.lock")
CLEAN, FAULTY, UNCHECKED = 0, 1, 3
SECONDS = 300.0


@dataclass(frozen=True)
class Audited:
    """The faults of one lock file; `reason` says why nothing could be looked up."""

    lock: str
    packages: int = 0
    faults: tuple[str, ...] = ()
    reason: str = ""


def audit(root: Path) -> int:
    """Print the known faults of each lock file. Returns 0: none. 1: some. 3: not all could be checked."""
    found = [*(_python(root, lock) for lock in LOCKS), _browser(root)]
    for one in found:
        if one.reason:
            print(f"{one.lock}: NOT CHECKED: no database of advisories could be reached ({one.reason})")
        else:
            print(f"{one.lock}: {one.packages} packages, {len(one.faults) or 'no'} known faults")
        for fault in one.faults:
            print(f"  {fault}")
    if any(one.faults for one in found):
        return FAULTY
    return UNCHECKED if any(one.reason for one in found) else CLEAN


def _python(root: Path, lock: str) -> Audited:
    """Look up the locked packages; nothing is installed or resolved."""
    with tempfile.TemporaryDirectory() as folder:
        written = Path(folder) / "found.json"
        command = [
            sys.executable,
            "-m",
            "pip_audit",
            "-r",
            str(root / lock),
            "--disable-pip",
            "--require-hashes",
            "-f",
            "json",
            "-o",
            str(written),
            "--progress-spinner",
            "off",
        ]
        outcome = _run(command, root)
        if not written.exists() or not written.read_text().strip():
            return Audited(lock, reason=_last(outcome))
        return python_read(lock, json.loads(written.read_text()))


def python_read(lock: str, document: dict[str, Any]) -> Audited:
    """Read pip-audit's document."""
    packages = document["dependencies"]
    skipped = [one["name"] for one in packages if "skip_reason" in one]
    faults = tuple(
        f"{one['name']} {one['version']}: {fault['id']}, fixed in {', '.join(fault['fix_versions']) or 'no version yet'}"
        for one in packages
        for fault in one.get("vulns", ())
    )
    return Audited(lock, len(packages), faults, f"not known there: {', '.join(skipped)}" if skipped else "")


def _browser(root: Path) -> Audited:
    lock = "package-lock.json"
    npm = shutil.which("npm")
    if npm is None:
        return Audited(lock, reason="npm is not installed")
    outcome = _run([npm, "audit", "--json", "--package-lock-only"], root)
    try:
        return browser_read(lock, json.loads(outcome.stdout))
    except (ValueError, KeyError, TypeError):
        return Audited(lock, reason=_last(outcome))


def browser_read(lock: str, document: dict[str, Any]) -> Audited:
    """Read npm's document. Raises KeyError for one that only reports an error."""
    faults = tuple(f"{name}: {one['severity']}" for name, one in sorted(document["vulnerabilities"].items()))
    return Audited(lock, document["metadata"]["dependencies"]["total"], faults)


def _run(command: list[str], root: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {SECONDS:.0f} s")


def _last(outcome: subprocess.CompletedProcess[str]) -> str:
    said = [line for line in (outcome.stderr or outcome.stdout).strip().splitlines() if line.strip()]
    return said[-1].strip()[:200] if said else f"status {outcome.returncode}"
