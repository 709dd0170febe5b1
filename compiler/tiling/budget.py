"""What compiling may cost. Programs that are too long are refused before the work is done; what searching may cost is
counted in tiles placed. Neither is ever in seconds, so that every machine answers the same.
"""

from __future__ import annotations

from compiler.errors import ModelError
from compiler.ir import Graph, Join, Reshape, View
from compiler.tiling.tile import Tile

EFFORT = 100_000  # instructions of a program of no operations; they take ten seconds or so
OPERATION = 20  # and an operation or an input is as much work as so many; other names of the same bytes are little
PLACED = 50_000  # tiles in all passes of one search; a tile takes 20 microseconds or so


def passes(tiles: int, most: int) -> int:
    """Passes over so many tiles that a search may make: ``most``, fewer for a long program, one for the longest."""
    return min(most, max(1, PLACED // max(1, tiles)))


class TooLong(ModelError):
    """A program of more operations or instructions than are compiled."""


def room(graph: Graph) -> int:
    """Instructions that a graph may have; ``TooLong`` where its operations alone are too many."""
    operations = len(graph.inputs) + sum(not isinstance(node, View | Reshape | Join) for node in graph.nodes)
    left = EFFORT - OPERATION * operations
    if left <= 0:
        raise TooLong(
            f"the model has {operations} operations and inputs that cannot be merged; at most {EFFORT // OPERATION - 1} "
            "are compiled into a program. Split the model, or unroll fewer steps of what repeats."
        )
    return left


class Tiles(list["Tile"]):
    """Tiles in the order in which they are made, at most so many."""

    def __init__(self, most: int = EFFORT) -> None:
        super().__init__()
        self.most = most

    def append(self, tile: Tile) -> None:
        """One more; ``TooLong`` beyond the most."""
        if len(self) >= self.most:
            self.expect(1)
        super().append(tile)

    def expect(self, more: int) -> None:
        """``TooLong`` where so many more are too many, before they are made."""
        if len(self) + more > self.most:
            raise TooLong(
                f"with it the program has at least {len(self) + more} instructions; one of as many operations may have "
                f"{self.most}. Split the model, or give it smaller inputs, filters or batches."
            )
