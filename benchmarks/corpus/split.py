"""Which part of the corpus a model belongs to: it follows from the model's name and from nothing else."""

from __future__ import annotations

import hashlib

WORK, REPORT = PARTS = ("work", "report")


def part(name: str) -> str:
    """``work`` where the SHA-256 of the name is even, ``report`` where it is odd: the last are measured, never studied."""
    return PARTS[hashlib.sha256(name.encode()).digest()[-1] % 2]
