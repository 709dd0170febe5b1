"""The fixture of release 0.1.0: what its database, storage and customers held. `release_0_1_0/make.py` made it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from bin.archives import unpack
from tests.upgrade.databases import database, restore

FOLDER = Path(__file__).parent / "release_0_1_0"
DOCUMENTS = FOLDER / "documents"
FACTS: dict[str, Any] = json.loads((FOLDER / "facts.json").read_text())
PRESENT = datetime.fromisoformat(FACTS["present"])
INVOICES = sorted(DOCUMENTS.glob("T-*.json"))
# What `takt verify` needs beside an invoice: both price books, two models, the ranges of the one that was calibrated.
FILES = [
    DOCUMENTS / name for name in ("book-1.json", "book-2.json", "choosing.onnx", "digits-small.onnx", "ranges.json")
]


@contextmanager
def release(name: str) -> Iterator[None]:
    """The database of the release, as the one that Django works with."""
    with database(name):
        restore(FOLDER / "database.sql.gz")
        yield


def storage_unpack(to: Path) -> None:
    """The release's storage."""
    unpack(FOLDER / "storage.tar.gz", to)
