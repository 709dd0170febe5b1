"""What searching may cost: counted in tiles placed, never in seconds, so that every machine finds the same schedule."""

from __future__ import annotations

PLACED = 50_000  # tiles in all passes of one search; a tile takes 20 microseconds or so


def passes(tiles: int, most: int) -> int:
    """Passes over so many tiles that a search may make: ``most``, fewer for a long program, one for the longest."""
    return min(most, max(1, PLACED // max(1, tiles)))
