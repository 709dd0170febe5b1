"""The fewest unit-cycles of an operation over all its legal forms.

A contraction may run on the planes, with either operand in the plane and any part of its epilogue behind it, or on the
vector unit. A pass of a plane holds at most ``K`` rows and ``N`` columns of weights, whatever is packed into it, and a
row of the sum that is wider than N columns takes part in ceil(columns / N) passes: hence the row-slots and column-slots
below. Units other than the planes are counted in whole instructions' arithmetic, never less than their lanes allow.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import prod

from compiler.bounds.shape import Box, Extents, extents, read_box
from compiler.ir.expr import FREE, Expr
from compiler.ir.graph import Compute, Gather, Graph, Node, Scatter, Sort
from compiler.isa.machine import Machine
from compiler.isa.timing import ceil_div, sort_run, sort_stages

Work = dict[str, Fraction]  # unit class -> unit-cycles
SCHEDULED = ("external", "weights", "matrix", "vector", "move")


def forms(node: Node, graph: Graph, machine: Machine, box: Box | None = None) -> list[Work]:
    """All legal forms of an operation for ``box`` points of its output; one empty form when it needs no unit."""
    if isinstance(node, Gather):
        points = prod(box if box is not None else node.loops)
        size = graph.types[node.output].dtype.size
        return [{"move": Fraction(points * size, machine.line_bytes * machine.move.ports["out"])}]
    if isinstance(node, Scatter | Sort):
        return [_ordered(node, graph, machine)]
    if not isinstance(node, Compute):
        return [{}]
    if node.reducer is None and node.expr.is_identity and node.post is None:
        return [{}]  # a copy, which may be a name for the same memory
    found = [_vector(node, graph, machine, box)] if machine.vector.instances else []
    if on_planes(node, graph, machine):
        found += _planes(node, graph, machine, box)
    return found


def _ordered(node: Scatter | Sort, graph: Graph, machine: Machine) -> Work:
    """An element per cycle where results build on each other; every number through the first stages of its sort."""
    if isinstance(node, Scatter):
        return {"move": Fraction(prod(node.loops) if node.reducer else 0)}
    kind = graph.types[node.input]
    run = min(kind.shape[-1], sort_run(machine))
    return {"vector": Fraction(kind.elements * sort_stages(run // 2 + 1), max(1, machine.vector.lanes))}


def on_planes(node: Compute, graph: Graph, machine: Machine) -> bool:
    """Whether a plane can execute this contraction."""
    if not node.is_contraction:
        return False
    return all(graph.types[o.value].dtype.value in machine.matrix.tiles for o in node.operands[:2])


def passes(expr: Expr | None, machine: Machine) -> int:
    """Arithmetic-unit operations that one element of an expression needs."""
    if expr is None:
        return 0
    return sum(machine.passes.get(step.op, 1) for step in expr.steps if step.op not in FREE)


def vector_lanes(node: Compute, graph: Graph, machine: Machine) -> int:
    """Elements per cycle: wide ones take two lanes. The narrowest reading, which can only lower the bound."""
    steps = (*node.expr.steps, *(node.post.steps if node.post else ()))
    size = min([graph.types[node.output].dtype.size, *(step.dtype.size for step in steps)])
    return machine.vector.lanes if size <= 4 else machine.vector.lanes // 2


def _vector(node: Compute, graph: Graph, machine: Machine, box: Box | None) -> Work:
    points = prod(box) if box is not None else node.points
    lanes = vector_lanes(node, graph, machine)
    body = passes(node.expr, machine) + (1 if node.reducer else 0)
    cycles = points * node.reduction * max(1, ceil_div(body, machine.vector.alus))
    cycles += points * ceil_div(passes(node.post, machine), machine.vector.alus)
    return {"vector": Fraction(cycles, lanes)}


def _planes(node: Compute, graph: Graph, machine: Machine, box: Box | None) -> Iterator[Work]:
    post = passes(node.post, machine)
    for stationary in (0, 1):
        e = extents(node, graph, stationary, box)
        dtype = graph.types[node.operands[stationary].value].dtype
        depth, width = machine.matrix.tiles[dtype.value]
        if e.share <= 0:
            yield {}
            continue
        cycles = e.rows * row_passes(e, depth, width)
        outside = machine.external.all_weights and box is None
        fetched = {"external": _fetched(node, graph, machine) * e.share} if outside else {}
        weights = Fraction(e.batch * e.inner * e.columns * dtype.size, machine.weights.bytes_per_cycle)
        for behind in range(1, max(1, ceil_div(post, machine.matrix.alus)) + 1):
            # each pass that ends a sum takes `behind` cycles a row, which pays for that many ALU stages
            ends = Fraction(e.rows * e.batch * e.columns * (behind - 1), width)
            rest = max(0, post - behind * machine.matrix.alus)
            points = e.batch * e.rows * e.columns
            vector = Fraction(points * rest, machine.vector.alus * vector_lanes(node, graph, machine))
            yield {"matrix": cycles + ends, "weights": weights * e.share, "vector": vector} | fetched


def _fetched(node: Compute, graph: Graph, machine: Machine) -> Fraction:
    """Cycles of the external port for a constant factor that planes take from there only; charged to its first reader."""
    found = Fraction(0)
    for o in node.operands[:2]:
        if o.value not in graph.constants or o.fill is not None:
            continue
        readers = (n for n in graph.nodes if isinstance(n, Compute) and any(p.value == o.value for p in n.operands))
        mixed = any(sum(1 for c in column if c) > 1 for column in zip(*o.access.matrix, strict=True))
        whole = read_box(o, graph, node.loops, node.loops) == graph.types[o.value].shape and not mixed
        if whole and next(readers) is node:
            found += Fraction(graph.types[o.value].bytes, machine.external.bytes_per_cycle)
    return found


def row_passes(e: Extents, depth: int, width: int) -> Fraction:
    """Passes of a plane for one row of every product of the batch: by row-slots and by column-slots, the larger.

    A fraction: the unfilled part of a pass may hold another row's, since block-diagonal weights are legal.
    """
    by_rows = Fraction(e.batch * e.inner * ceil_div(e.columns, width), depth)
    by_columns = Fraction(e.batch * e.columns * ceil_div(e.inner, depth), width)
    return max(by_rows, by_columns) * e.share
