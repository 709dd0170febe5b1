"""The stationary operand: which factor of a contraction stays in the planes, and how its result is stored.

Either factor may be stationary: few filters over a large image are better streamed past the image than the image past
them. Both choices, and both storage orders of the result, are priced in cycles of the busiest unit, with the line fetches
that the operands' places cause; the result's readers are priced with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import gcd, prod

from compiler.costs import (
    Roles,
    epilogue_stages,
    factor_types,
    fits_planes,
    plane_tile,
    product_shape,
    products_per_pass,
    roles,
)
from compiler.ir import Compute, Graph, reads_of
from compiler.isa import Machine, points
from compiler.tiling.input_overlap import InputOverlap
from compiler.tiling.place import Place, ordered_strides
from compiler.tiling.readers import Order, Readers, fetches, loop_strides, nest, ordered

Pitch = tuple[int, int] | None  # innermost dimensions whose extent is padded, and to a multiple of how many bytes
LONG_ROWS = 320  # rows of one product where lines are fetched along the rows
SHORT_ROWS = 64
FEW = 8  # rows of which whole lines may be made up without padding
EARLIER = 2  # operations by which one factor is there before the other


@dataclass(frozen=True)
class Dataflow:
    """A choice for one contraction: the stationary operand, the result's storage order and the padding of its rows."""

    stationary: int
    order: Order
    pitch: Pitch


class DataflowSelector:
    """Chooses the dataflow of one contraction after the other; ``places`` holds what is already placed."""

    def __init__(self, graph: Graph, machine: Machine, places: Mapping[str, Place], overlap: InputOverlap) -> None:
        self.graph, self.machine, self.places = graph, machine, places
        self.readers = Readers(graph, machine, places)
        self.chosen = self.readers.chosen
        self.overlap = overlap
        self._surroundings: dict[tuple[object, ...], int] = {}
        self._prices: dict[tuple[int, Dataflow], int] = {}
        self.depth: dict[str, int] = {}  # operations on the longest way to a value
        for node in graph.nodes:
            self.depth[node.output] = 1 + max((self.depth.get(v, 0) for v in reads_of(node)), default=0)

    def choose(self, node: Compute) -> Dataflow:
        """The cheapest dataflow for a contraction whose operands are placed; a constant stays when costs are even."""
        dataflows = self._sides(node)
        first = self.readers.joined.get(node.output, "")  # of a join's leading part, where the others go too
        dataflows = [s for s in dataflows if s.order == self.chosen.get(first)] or dataflows
        if len(dataflows) == 1:
            self.chosen[node.output] = dataflows[0].order
            return dataflows[0]
        around = self._around(node)
        priced = sorted((self._known_price(node, side, around), at) for at, side in enumerate(dataflows))
        least, best = priced[0][0], dataflows[priced[0][1]]
        if not self._fixed(node, best):
            streamed = next(((cost, dataflows[at]) for cost, at in priced if self._fixed(node, dataflows[at])), None)
            if streamed and self.overlap.follows(node, best.stationary, streamed[0] - least):
                best = streamed[1]
        self.chosen[node.output] = best.order
        return best

    def _fixed(self, node: Compute, side: Dataflow) -> bool:
        """Whether a constant stays in the planes."""
        return node.operands[side.stationary].value in self.graph.constants

    def _early(self, node: Compute, stationary: int) -> bool:
        """Whether what stays in the planes comes at run time, and well before what moves: loading it keeps nobody waiting."""
        fixed, moving = (node.operands[n].value for n in (stationary, 1 - stationary))
        return fixed in self.depth and self.depth[fixed] + EARLIER <= self.depth.get(moving, 0)

    def _around(self, node: Compute) -> int:
        """A number for all that ``_priced`` goes by but for the dataflow, names aside: the same in every repeated block."""
        strides = (self._strides(node, n) for n in (0, 1))
        found = (
            self.readers.works.of(node),
            tuple(s and tuple(s) for s in strides),
            tuple(self._early(node, n) for n in (0, 1)),
            self.readers.around(node.output),
        )
        return self._surroundings.setdefault(found, len(self._surroundings))

    def _known_price(self, node: Compute, side: Dataflow, around: int) -> int:
        """``_priced``, once for all contractions that have the same ``around`` them."""
        key = (around, side)
        if key not in self._prices:
            self._prices[key] = self._priced(node, side)
        return self._prices[key]

    def _priced(self, node: Compute, side: Dataflow) -> int:
        """Cycles of a contraction and of those who read its result."""
        place = self._place(node.output, side)
        early = self._early(node, side.stationary)
        cost = self._cost(node, side.stationary, {node.output: place}, ahead=early)
        if not early and not self._fixed(node, side):  # its weights cannot be loaded ahead
            cost += cost // 8 + self.machine.weights.latency
        return cost + self.readers.cost(node.output, place, self.contraction)

    def contraction(self, reader: Compute, override: dict[str, Place]) -> int | None:
        """Cycles of a reader on the planes; None when it cannot go there."""
        if not fits_planes(reader, self.graph, self.machine):
            return None
        return min(self._cost(reader, s, override) for s in (0, 1))

    def _place(self, value: str, side: Dataflow) -> Place:
        t = self.graph.types[value]
        return Place(value, t.dtype, t.shape, 0, ordered_strides(t.shape, side.order, t.dtype.size, side.pitch))

    def _sides(self, node: Compute) -> list[Dataflow]:
        constant = [o.value in self.graph.constants for o in node.operands[:2]]
        first = 0 if constant[0] and not constant[1] else 1
        if not fits_planes(node, self.graph, self.machine):
            return [self._side(node, roles(node, first), rows_inside=False)]
        # Streaming a constant needs the whole of it on the chip.
        both = not (constant[first] and self.machine.external.all_weights)
        return [
            side
            for stationary in ((first, 1 - first) if both else (first,))
            for side in self._orders(node, roles(node, stationary), run_time=not any(constant))
        ]

    def _orders(self, node: Compute, r: Roles, run_time: bool) -> Iterator[Dataflow]:
        """Storage orders of a result; ``run_time``: both factors are made as the program runs, so who reads one need not wait."""
        yield self._side(node, r, rows_inside=False)
        if r.rows and (r.columns or r.batch):
            yield self._side(node, r, rows_inside=True)
        if (
            r.rows and r.batch
        ):  # product after product, or those of a batch side by side, as what concatenates heads wants them
            if run_time:
                yield Dataflow(r.stationary, (*r.batch, *r.rows, *r.columns), None)
            yield Dataflow(r.stationary, (*r.rows, *r.batch, *r.columns), None)
        kinds = [i in r.columns for i in range(node.parallel) if node.loops[i] > 1]
        mingled = sum(a != b for a, b in pairwise(kinds)) > 1
        if mingled and node.output in self.readers.reshaped:  # rows between columns, as a reshape takes them
            yield Dataflow(r.stationary, tuple(range(node.parallel)), None)

    def _side(self, node: Compute, r: Roles, rows_inside: bool) -> Dataflow:
        line, size = self.machine.line_bytes, self.graph.types[node.output].dtype.size
        columns = self._ordered(r.columns, self._strides(node, r.stationary))
        moving = self._strides(node, 1 - r.stationary)
        if rows_inside:
            rows = self._ordered(r.rows, moving)
            extent = prod(node.loops[i] for i in rows) * size
            unit = line if extent > line else padded(extent, line)
            return Dataflow(r.stationary, (*r.batch, *columns, *rows), (len(rows), unit) if extent % unit else None)
        outer = self._ordered(sorted(r.batch + r.rows), moving)
        width = prod(node.loops[i] for i in columns)
        tile = self.machine.matrix.tiles.get(factor_types(node)[1 - r.stationary].value, (0, 0))[1]
        # Planes write neighbouring columns, or neighbouring products of a batch, at the same time: not into one line.
        shared = width > tile or (r.batch and node.operands[r.stationary].value not in self.graph.constants)
        pad = self.machine.matrix.instances > 1 and bool(shared) and bool((width * size) % line)
        return Dataflow(r.stationary, (*outer, *columns), (len(columns), line) if pad else None)

    def _ordered(self, loops: list[int], strides: list[int] | None) -> list[int]:
        """Loops from the largest stride of their operand to the smallest; as they stand where it has none."""
        return list(ordered(loops, strides)) if strides else loops

    def _strides(self, node: Compute, operand: int, override: Mapping[str, Place] | None = None) -> list[int] | None:
        """Bytes along every loop; None for a constant (which is packed as the planes want it) and for what has no place yet."""
        value = node.operands[operand].value
        place = (override or {}).get(value) or self.places.get(value)
        if place is None or value in self.graph.constants:
            return None
        return loop_strides(place, node, operand)

    def _cost(self, node: Compute, stationary: int, override: Mapping[str, Place], ahead: bool = False) -> int:
        """About how many cycles the planes, or their weight ports, are busy per plane; ``ahead``: its first load is hidden."""
        r, matrix, types = roles(node, stationary), self.machine.matrix, factor_types(node)
        tile = depth, width = plane_tile(node, stationary, self.machine)
        batch, m, n, k = product_shape(node, stationary)
        kt, nt = -(-k // depth), -(-n // width)
        kk, nn, long = min(k, depth), min(n, width), min(m, LONG_ROWS)
        block, size = self._block(node, r, k, n, tile)
        batch = -(-batch // size)
        inner, across = ([*block, *r.inner], [*block, *r.columns]) if size > 1 else (r.inner, r.columns)
        moving = self._strides(node, 1 - stationary, override)
        rows = self._ordered(r.rows, moving)
        moved = (rows, long), (inner, kk * size)
        a = self._fetches(node, moving, *moved, types[1 - stationary].size, matrix.ports["a"])
        load = self._load(node, stationary, (inner, kk * size), (r.columns, nn), override)
        last = long * epilogue_stages(node.post, self.machine)
        short = SHORT_ROWS  # rows that one plane takes at least; they end on lines of their own
        if node.output in override:
            place = override[node.output]
            strides = self._out_strides(node, place)
            short = max(short, steps(strides, node.loops, rows, self.machine.line_bytes))
            written = (rows, long), (across, nn * size)
            last = max(last, self._fetches(node, strides, *written, place.dtype.size, matrix.ports["out"]))
        work = ((kt - 1) * max(a, long) + max(a, last)) * m // long
        constant = node.operands[stationary].value in self.graph.constants
        again = max(1, m // 1024) if constant and kt == 1 else max(1, m // LONG_ROWS)
        busy = batch * nt * max(work, kt * load * again)
        if size == 1 and batch == 1 and nt > 1 and _plain(node, stationary):
            busy -= self._shared(busy // nt, k, n, max((node.loops[i] for i in r.rows), default=1), tile)
        return busy // min(matrix.instances, batch * nt * max(1, m // short)) + (0 if ahead else load)

    def _load(
        self,
        node: Compute,
        stationary: int,
        inner: tuple[list[int], int],
        columns: tuple[list[int], int],
        override: Mapping[str, Place],
    ) -> int:
        """Cycles of a weight port for a tile of ``inner`` by ``columns`` points; a packed constant takes its bytes alone."""
        weights, size = self.machine.weights, factor_types(node)[stationary].size
        load = -(-inner[1] * columns[1] * size // weights.bytes_per_cycle)
        fixed = self._strides(node, stationary, override)
        if fixed is None:
            return load
        piece = inner, (self._ordered(columns[0], fixed), columns[1])
        return max(load, self._fetches(node, fixed, *piece, size, weights.ports["a"]))

    def _shared(self, cycles: int, k: int, n: int, rows: int, tile: tuple[int, int]) -> int:
        """Of the ``cycles`` of one tile of columns those that are saved where the columns left over share passes with those
        of other ``rows`` (``loop_nests.packed_remainder``)."""
        depth, width = tile
        rest = n % width
        most = min(depth // k, width // rest) if rest else 1
        together = max((d for d in range(1, most + 1) if rows % d == 0), default=1)
        return cycles * (together - 1) // together if together > 1 else 0

    def _block(self, node: Compute, r: Roles, k: int, n: int, tile: tuple[int, int]) -> tuple[list[int], int]:
        """The batch loop of which several products share a pass, and how many."""
        loop = max(r.batch, key=lambda i: node.loops[i], default=-1)
        return ([loop], products_per_pass(node.loops[loop], k, n, tile)) if loop >= 0 else ([], 1)

    def _out_strides(self, node: Compute, place: Place) -> list[int]:
        return [abs(place.strides[i]) if i < node.parallel else 0 for i in range(len(node.loops))]

    def _fetches(
        self,
        node: Compute,
        strides: list[int] | None,
        first: tuple[list[int], int],
        second: tuple[list[int], int],
        size: int,
        ports: int,
    ) -> int:
        """Cycles to fetch a piece of ``first`` by ``second`` points; packed along the second when there are no strides."""
        line = self.machine.line_bytes
        if strides is None:
            return -(-first[1] * -(-second[1] * size // line) // ports)
        g1, g2 = (nest(node, strides, loops) for loops, _ in (first, second))
        counts = first[1], min(second[1], points(g2))
        return -(-fetches(size, g1, g2, counts, line) // ports)


def _plain(node: Compute, operand: int) -> bool:
    """Whether an operand is read element by element: no windows, no strides."""
    rows = node.operands[operand].access.matrix
    return all(sum(abs(c) for i, c in enumerate(row) if node.loops[i] > 1) <= 1 for row in rows)


def padded(extent: int, line: int) -> int:
    """Bytes that a short row is padded to, so that few rows together fill whole lines."""
    if line // gcd(extent, line) <= FEW:
        return extent
    return next(d for d in range(extent, line + 1) if line % d == 0)


def steps(strides: list[int], extents: tuple[int, ...], loops: list[int], line: int) -> int:
    """How many neighbours along ``loops`` end on a line: pieces of so many never share one."""
    wide = sorted((i for i in loops if extents[i] > 1), key=lambda i: strides[i])
    if not wide:
        return 1
    pitch = strides[wide[0]]
    if len(wide) > 1 and strides[wide[1]] != pitch * extents[wide[0]] and strides[wide[1]] % line == 0:
        return extents[wide[0]]  # padded
    return line // gcd(pitch, line) if pitch else 1


def stacked(strides: list[int], extents: tuple[int, ...], r: Roles, size: int) -> bool:
    """Whether the result of a row, all its columns, ends before that of the next one begins: then pieces of rows meet in no
    more than a line, whatever their length."""
    rows = [strides[i] for i in r.rows if extents[i] > 1]
    return bool(rows) and min(rows) >= size + sum(strides[i] * (extents[i] - 1) for i in r.columns)
