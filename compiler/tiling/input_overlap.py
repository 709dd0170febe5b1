"""Layers that overlap the input: while an image comes in over the link, what counts is how soon a layer can follow it.

With the image's pixels as weights a layer takes few passes, but each waits for as many pixels as a plane holds; with the
filters as weights it follows the image row by row. The second is chosen as long as its further cycles are among those for
which the planes would wait for the link anyway. What needs all of a value for each of its elements (a gate behind a mean over the
image) follows nothing, nor does what reads it.
"""

from __future__ import annotations

from math import prod

from compiler.costs import fits_planes, input_cycles, plane_cycles, plane_tile, product_shape
from compiler.ir import Compute, Graph, Node, reads_of
from compiler.isa import Machine


class InputOverlap:
    """``cycles`` for which the inputs come in, and how many of them are left to spend on planes (``spare``)."""

    def __init__(self, graph: Graph, machine: Machine) -> None:
        self.graph, self.machine = graph, machine
        self.cycles = input_cycles(graph, machine)
        before, self._during, self._behind = 0, set[str](), set[str]()
        for node in graph.nodes:
            before += self._work(node) if isinstance(node, Compute) else 0
            if before < self.cycles:
                self._during.add(node.output)
            if self._takes_all(node) or not self._behind.isdisjoint(reads_of(node)):
                self._behind.add(node.output)
        self.spare = self.cycles - self.cycles // IDLE - before

    def _work(self, node: Compute) -> int:
        """Cycles of all planes together for a contraction, the cheaper factor staying."""
        if self.cycles <= 0 or not fits_planes(node, self.graph, self.machine):
            return 0
        cheaper = min(plane_cycles(node, side, self.machine, shared=False) for side in (0, 1))
        return cheaper // self.machine.matrix.instances

    def _takes_all(self, node: Node) -> bool:
        """Whether one element of a result takes all elements of something that is made as the program runs."""
        if not isinstance(node, Compute) or node.reducer is None:
            return False
        shapes = [(o, self.graph.types[o.value].shape) for o in node.operands if o.value not in self.graph.constants]
        inner = range(node.parallel, len(node.loops))
        return any(
            prod(shape) > 1
            and all(
                n == 1 or prod(node.loops[i] for i in inner if row[i]) >= n
                for n, row in zip(shape, o.access.matrix, strict=True)
            )
            for o, shape in shapes
        )

    def during(self, value: str) -> bool:
        """Whether planes would have made a value before the inputs are all there, if they never had to wait."""
        return value in self._during

    def follows(self, node: Compute, stationary: int, further: int) -> bool:
        """Whether a contraction should follow the image although that takes so many ``further`` cycles, which are then
        spent; ``stationary``: the factor that takes fewer, of which a plane's width has to be there first."""
        if not 0 <= further <= self.spare or node.output in self._behind:
            return False
        columns = product_shape(node, stationary).columns
        width = plane_tile(node, stationary, self.machine)[1]
        if self.cycles * min(columns, width) // max(1, columns) < WORTH * further:
            return False
        self.spare -= further
        return True


IDLE = 8  # part of the cycles in which planes never have work: units wait for each other
WORTH = 2  # cycles that a layer waits less for every further cycle of planes
