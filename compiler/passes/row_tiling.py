"""Row tiling (strip mining): what follows a product of two values made as the program runs goes through its rows some at a time.

The scores of attention need all keys, and the next layer's scores all rows of this one; between the two every row goes its
own way: softmax, the sum of values, normalisations, dense layers. As whole operations these are a chain, in which planes
wait for the vector unit and the vector unit for planes. Cut into strips of rows, one strip is multiplied while the vector
unit has another, and the first rows of a result are on the link while the last are computed. The work is the same but for
weights, which planes load anew for every further strip; so there are as many strips as the vector unit's work hides of
those loads. The same holds for rows behind the last product that are reduced (as a classifier's softmax over many classes) and
then leave, and for rows that are looked up (in several tables, as words and positions), as far as the first product that
needs all of them. Source: strip mining, as for vector machines (R. Allen and K. Kennedy, "Automatic translation of Fortran
programs to vector form", 1987), here over whole layers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from compiler.costs import vector_stages
from compiler.ir import Compute, Gather, Graph, Join, Node, Operand, Part, Reshape, TensorType, View, reads_of
from compiler.isa import Machine
from compiler.passes.live import live_bytes
from compiler.passes.rewriter import Rewriter
from compiler.passes.row_stretches import counts, grouped, is_product, joins, leaving, row_dimension

STRIPS = 2  # of a stretch at least
MOST = 3  # and at most, where the loads of more would still be hidden; more find no more to overlap
LEAVING = 4  # of one whose rows leave on the link, which begins with the first strip
FEWER = (3, 5)  # rows of two strips of which one is the shorter
ROWS = 8  # of a strip at least, were all alike
CYCLES = 64  # of the vector unit on a strip at least: less does not hide the way to the planes and back
STRIP, GROUP = "strip", "group"
STEPS = 200_000  # operations that are looked at for a whole graph


@dataclass(frozen=True)
class _Stretch:
    """``dims``: by value made in the stretch the dimension that its rows lie along; ``after``: values that need all rows."""

    dims: Mapping[str, int]
    after: frozenset[str]


def tile_rows(graph: Graph, machine: Machine) -> Graph:
    """The graph with every stretch behind a product of two run-time values in strips of rows; the same values.

    A graph is left as it is where memory is so short that the order of its operations matters.
    """
    if not machine.matrix.instances or not machine.vector.instances:
        return graph
    begins = any(joins(n, graph) for n in graph.nodes) or leaving(graph, _worth_leaving(machine)) or grouped(graph)
    if not begins:
        return graph
    fixed = sum(graph.types[name].bytes for name in graph.constants)
    if fixed + 2 * max(live_bytes(graph)) > machine.memory_bytes:
        return graph
    return _Writer(graph, machine).run()


def _worth_leaving(machine: Machine) -> int:
    """Bytes of an output for which the link is worth an early beginning."""
    return LEAVING * CYCLES * machine.link_out.bytes_per_cycle * machine.link_out.instances


def strip_of(node: Node | None) -> int:
    """Which strip of its stretch an operation is; 0 where it is no strip."""
    return node.part.number if node is not None and node.part is not None and in_strip(node) else 0


def in_strip(node: Node | None) -> bool:
    """Whether an operation is some rows or channels of another, which units work on in turn."""
    return node is not None and node.part is not None and node.part.kind in (STRIP, GROUP)


def in_group(node: Node | None) -> bool:
    """Whether an operation is a group of channels of another."""
    return node is not None and node.part is not None and node.part.kind == GROUP


def _shares(count: int, *, early: bool, waiting: bool) -> tuple[int, ...]:
    """How long strips are beside each other. ``early``: rows leave, so the first are few for the link to begin soon; where strips
    are several each is longer than the one before by as much as the first is long, but not the last, behind which nothing is
    left to do. ``waiting``: the loads for a strip take as long as the vector unit has work on it. Those for the
    second hide what the vector unit does with the first, and nothing what it does with the second; so that one is shorter."""
    if early and count > 1:
        return tuple(min(at + 1, count - 1) for at in range(count)) if count > STRIPS else FEWER
    return FEWER[::-1] if waiting and count == STRIPS else (1,) * count


def _rows(size: int, strip: int, shares: tuple[int, ...]) -> tuple[int, int]:
    """From which row to which a strip goes."""
    start, whole = sum(shares[:strip]), sum(shares)
    return size * start // whole, size * (start + shares[strip]) // whole


def _needed_first(stretch: _Stretch, left: list[Node]) -> tuple[list[Node], list[Node]]:
    """Nodes outside a stretch that something in it needs, and all others."""
    needed = {value for n in left if n.output in stretch.dims for value in reads_of(n)}
    before: list[Node] = []
    others: list[Node] = []
    for node in reversed([n for n in left if n.output not in stretch.dims]):
        if node.output in needed:
            before.append(node)
            needed.update(reads_of(node))
        else:
            others.append(node)
    return before[::-1], others[::-1]


class _Writer:
    """``left``: operations that are still to be looked at; ``nodes``: those that are written."""

    def __init__(self, graph: Graph, machine: Machine) -> None:
        self.graph, self.machine = graph, machine
        self.writer = Rewriter(graph)
        self.types, self.nodes = self.writer.types, self.writer.nodes
        self.names: dict[tuple[str, int], str] = {}  # of strips, by the whole value and their number
        self.left = list(graph.nodes)
        self.steps = 0
        self.leaving = leaving(graph, _worth_leaving(machine))
        self.grouped = grouped(graph)

    def run(self) -> Graph:
        at = 0
        while at < len(self.left):
            stretch = self._best(at) if self._begins(self.left[at]) and self.steps < STEPS else None
            shares = self._cut(stretch) if stretch else ()
            if stretch is None or len(shares) < STRIPS:
                at += 1
                continue
            self.nodes += self.left[:at]
            self.left = self._write(stretch, self.left[at:], shares)
            at = 0
        self.nodes += self.left
        return self.writer.done()

    def _begins(self, node: Node) -> bool:
        """Whether a stretch may begin: at a product of run-time values, one whose rows leave, or rows that are looked up."""
        known = node.output in self.leaving or node.output in self.grouped
        return known or joins(node, self.graph) or isinstance(node, Gather)

    def _best(self, at: int) -> _Stretch | None:
        """Of the dimensions of a value the one along which most work can follow."""
        node = self.left[at]
        if node.output in self.grouped:
            return self._grown(at, 0)
        stretches = [self._grown(at, dim) for dim in self._long_dims(node)]
        if isinstance(node, Gather):  # as far as the first product that needs all rows
            stretches = [s for s in stretches if not any(joins(n, self.graph) for n in self._members(s))]
        return max(stretches, key=lambda s: sum(n.operations for n in self._members(s)), default=None)

    def _long_dims(self, node: Node) -> list[int]:
        """Dimensions with rows for several strips."""
        dims = [dim for dim, n in enumerate(self.graph.types[node.output].shape) if n >= STRIPS * ROWS]
        return [dim for dim in dims if not (isinstance(node, Compute) and counts(node, dim))]

    def _grown(self, at: int, dim: int) -> _Stretch:
        """All that follows from a product row by row."""
        dims = {self.left[at].output: dim}
        after: set[str] = set()
        for node in self.left[at + 1 :]:
            self.steps += 1
            read = set(reads_of(node))
            if not read & (dims.keys() | after):
                continue
            along = None if read & after else row_dimension(node, dims, self.graph)
            if along is None or self.types[node.output].shape[along] != self.types[self.left[at].output].shape[dim]:
                after.add(node.output)
            else:
                dims[node.output] = along
        for name in self._ends(at, dims):
            del dims[name]
            after.add(name)
        dims.update(self._looked_up(at, dims))
        return _Stretch(dims, frozenset(after))

    def _looked_up(self, at: int, dims: Mapping[str, int]) -> dict[str, int]:
        """Further rows that are looked up for this stretch alone (as those of a second table): where they lie."""
        first = self.left[at].output
        rows = self.types[first].shape[dims[first]]
        found = {}
        for value, nodes in self._read_tables(at, dims).items():
            if not nodes or any(n.output not in dims for n in nodes):
                continue
            along = self._read_along(value, nodes, dims)
            if along is not None and self.types[value].shape[along] == rows:
                found[value] = along
        return found

    def _read_tables(self, at: int, dims: Mapping[str, int]) -> dict[str, list[Node]]:
        """By value that is looked up elsewhere, the nodes that read it."""
        gathers = (n for n in self.left[at + 1 :] if isinstance(n, Gather) and n.guard is None)
        readers: dict[str, list[Node]] = {n.output: [] for n in gathers if n.output not in dims}
        for node in self.left if readers else ():
            self.steps += 1
            for value in reads_of(node):
                if value in readers:
                    readers[value].append(node)
        return readers

    def _read_along(self, value: str, readers: list[Node], dims: Mapping[str, int]) -> int | None:
        """The dimension of a value that all its readers walk over with the rows of their own results."""
        ways = range(len(self.types[value].shape))
        return next(
            (dim for dim in ways if all(row_dimension(n, {value: dim}, self.graph) == dims[n.output] for n in readers)),
            None,
        )

    def _ends(self, at: int, dims: Mapping[str, int]) -> list[str]:
        """Maps right behind a product that only those read who need all rows: they may follow other rows than the product."""
        makers = {n.output: n for n in self.left[at:] if n.output in dims}
        inner = {value for n in makers.values() for value in reads_of(n)} | {*self.graph.outputs}
        return [
            name
            for name, node in makers.items()
            if isinstance(node, Compute)
            and node.reducer is None
            and name not in inner
            and all(is_product(makers[v]) for v in reads_of(node) if v in makers)
        ]

    def _members(self, stretch: _Stretch) -> list[Compute]:
        return [n for n in self.left if isinstance(n, Compute) and n.output in stretch.dims]

    def _cut(self, stretch: _Stretch) -> tuple[int, ...]:
        """The shares of a stretch's strips."""
        members, machine = self._members(stretch), self.machine
        vector = sum(self._vector_cycles(n) for n in members if not n.is_contraction) // machine.vector.instances
        loads = sum(
            self.types[o.value].bytes
            for n in members
            if n.is_contraction
            for o in n.operands[:2]
            if o.value in self.graph.constants
        ) // (machine.weights.bytes_per_cycle * machine.matrix.instances)
        rows = min(self.types[value].shape[dim] for value, dim in stretch.dims.items())
        if self._by_groups(stretch):
            return (1,) * rows
        leaves = any(name in stretch.dims for name in self.graph.outputs)
        most = LEAVING if leaves else MOST if MOST * (MOST - 1) * loads <= vector else STRIPS
        count = max(1, min(most, rows // ROWS, vector // CYCLES, 1 + vector // max(1, loads)))
        return _shares(count, early=leaves, waiting=count * loads >= vector)

    def _by_groups(self, stretch: _Stretch) -> bool:
        return not self.grouped.isdisjoint(stretch.dims)

    def _vector_cycles(self, node: Compute) -> int:
        return -(-node.points * node.reduction // self.machine.vector.lanes) * vector_stages(node, self.machine)[0]

    def _write(self, stretch: _Stretch, left: list[Node], shares: tuple[int, ...]) -> list[Node]:
        """Write what a stretch needs, its strips, and the whole values that others read; what is left then."""
        members = [n for n in left if n.output in stretch.dims]
        before, others = _needed_first(stretch, left)
        self.nodes += before
        states = (s.update for s in self.graph.states)
        wanted = {*self.graph.outputs, *states, *(v for n in others for v in reads_of(n))}
        parts: dict[str, list[str]] = {n.output: [] for n in members if n.output in wanted}
        for strip in range(len(shares)):
            for node in members:
                made = self._strip(node, stretch, strip, shares)
                self.nodes.append(made)
                parts.get(node.output, []).append(made.output)
        for node in members:
            if node.output in parts:
                name, whole = self.writer.name(f"{node.name}~strips"), tuple(parts[node.output])
                self.nodes.append(Join(name, node.output, node.source, whole, stretch.dims[node.output]))
        return others

    def _strip(self, node: Node, stretch: _Stretch, strip: int, shares: tuple[int, ...]) -> Node:
        """The node for some of its rows."""
        dim, t = stretch.dims[node.output], self.types[node.output]
        start, end = _rows(t.shape[dim], strip, shares)
        kind = GROUP if self._by_groups(stretch) else STRIP
        node = replace(node, part=Part(kind, strip, node.output))

        def value(name: str) -> str:
            return self.names[name, strip]

        def part(operand: Operand) -> Operand:
            if operand.value in stretch.dims:
                return replace(operand, value=value(operand.value))
            return operand.read_by(operand.access.shifted(dim, start))

        shape = (*t.shape[:dim], end - start, *t.shape[dim + 1 :])
        output = self.writer.value(f"{node.output}~{kind}{strip}", TensorType(t.dtype, shape))
        self.names[node.output, strip] = output
        name = self.writer.name(f"{node.name}~{kind}{strip}")
        if isinstance(node, Reshape):
            return replace(node, name=name, output=output, input=value(node.input))
        if isinstance(node, View):
            return replace(node, name=name, output=output, operand=part(node.operand))
        if isinstance(node, Join):
            return replace(node, name=name, output=output, parts=tuple(value(p) for p in node.parts))
        assert isinstance(node, Compute | Gather)
        loops = (*node.loops[:dim], end - start, *node.loops[dim + 1 :])
        if isinstance(node, Gather):
            indices = tuple(None if index is None else part(index) for index in node.indices)
            return replace(node, name=name, output=output, loops=loops, data=part(node.data), indices=indices)
        operands = tuple(part(o) for o in node.operands)
        return replace(node, name=name, output=output, loops=loops, operands=operands)
