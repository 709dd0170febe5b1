"""Fetches the public data that benchmarks read: `python -m benchmarks.data [NAME ...]` fetches all, or some.

Data in `../shared/data` beside the checkout are read there; others are downloaded once, into `var/data`. Both are held to the
digests in `benchmarks/data.toml`, so every machine measures the same.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tomllib
import urllib.request
from pathlib import Path

from benchmarks.arguments import one_of, parser

ROOT = Path(__file__).resolve().parent.parent
LIST = Path(__file__).with_name("data.toml")
BESIDE, FETCHED = ROOT.parent / "shared" / "data", ROOT / "var" / "data"
SECONDS = 60


class DataMissing(Exception):
    """Raised if data are neither there nor to be had. The message says what to do."""


def listed(path: Path = LIST) -> dict[str, dict[str, str]]:
    """Return the address, the place beside the checkout, the licence and the digest of all data, by name."""
    return tomllib.loads(path.read_text(encoding="utf-8"))


def data(name: str) -> Path:
    """Return the path of a data file, fetched if needed. Raises DataMissing."""
    entry = listed()[name]
    places = BESIDE / entry["beside"], FETCHED / entry["beside"]
    for path in places:
        if path.is_file() and _digest(path.read_bytes()) == entry["sha256"]:
            return path
    path, address = places[1], entry["address"]
    by_hand = f"save it as {path}, or name a copy on the command line"
    try:
        with urllib.request.urlopen(address, timeout=SECONDS) as answer:  # noqa: S310 - an address of the list
            content = answer.read()
    except OSError as error:
        raise DataMissing(f"{address} cannot be fetched ({error}); {by_hand}") from None
    if _digest(content) != entry["sha256"]:
        raise DataMissing(f"{address} is not the file that benchmarks/data.toml names: its digest differs; {by_hand}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def given_or_fetched(given: Path | None, name: str, command: argparse.ArgumentParser) -> Path:
    """Return the path that the command line names, or that of the data. Ends the command if there is none."""
    if given is not None and not given.is_file():
        command.error(f"there is no file {given}; leave it out to fetch {name}")
    try:
        return given or data(name)
    except DataMissing as error:
        command.error(str(error))


def data_folder(prefix: str) -> Path:
    """Return the folder of all data whose names begin so. Raises DataMissing."""
    paths = [data(name) for name in listed() if name.startswith(prefix)]
    return paths[0].parent


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main(arguments: list[str]) -> int:
    """Fetch the data, and print where each file is."""
    command = parser("data", __doc__)
    command.add_argument("names", nargs="*", type=one_of(listed()), help="default: all")
    for name in command.parse_args(arguments).names or listed():
        try:
            print(f"{name:18} {data(name)}  {listed()[name]['licence']}")
        except DataMissing as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
