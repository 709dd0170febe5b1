"""Products with one-hot rows become look-ups: a row of ones and zeros that meets constant weights picks one of their rows.

Networks that read bytes or categories compare an input with 0, 1, 2, ... and multiply the truth values by a matrix. All but
one of the products are zero, so the sum is that row of the matrix with its bits; an input outside the range picks a row of
zeros. What follows the sum element by element is computed for the rows of the table, where all it reads is constant.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from compiler.ir.access import Access
from compiler.ir.builder import FOLD_BYTES
from compiler.ir.expr import Expr
from compiler.ir.graph import Compute, Gather, Graph, Node, Operand
from compiler.ir.interpreter import evaluate_node
from compiler.ir.terms import arg, const, expression, select, term_of
from compiler.ir.types import DType, TensorType
from compiler.passes.clean import dead_code

COMPARED = frozenset({DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.I64})
Array = np.ndarray[Any, Any]


def one_hots(graph: Graph) -> Graph:
    """Every contraction of a one-hot map by finite constant weights as a gather; the same values."""
    maps = {n.output: n for n in graph.nodes if isinstance(n, Compute) and n.reducer is None}
    work = _Work(graph)
    for node in graph.nodes:
        made = None
        if isinstance(node, Compute) and node.is_contraction and node.guard is None:
            for choice, table in ((0, 1), (1, 0)):
                source = maps.get(node.operands[choice].value)
                made = work.looked_up(node, source, choice, table) if source is not None and made is None else made
        work.nodes += made or [node]
    if len(work.nodes) == len(graph.nodes):
        return graph
    return dead_code(replace(graph, nodes=tuple(work.nodes), types=work.types, constants=work.constants))


def _one_hot(source: Compute, graph: Graph) -> tuple[int, Operand] | None:
    """The loop along which a map is 1 where a whole number equals the loop's place and else 0, and that number."""
    steps = source.expr.steps
    if (
        [s.op for s in steps] != ["arg", "arg", "eq", "cast"]
        or not source.expr.dtype.is_float
        or source.guard is not None
    ):
        return None
    for compared, places in ((0, 1), (1, 0)):
        number, row = source.operands[int(steps[compared].imm or 0)], source.operands[int(steps[places].imm or 0)]
        loops = [i for r in row.access.matrix for i, c in enumerate(r) if c]
        if len(loops) != 1 or row.value not in graph.constants or row.fill is not None or number.fill is not None:
            continue
        loop = loops[0]
        if graph.types[number.value].dtype not in COMPARED or any(r[loop] for r in number.access.matrix):
            continue
        at = tuple(o + r[loop] * np.arange(source.loops[loop]) for o, r in zip(*_parts(row.access), strict=True))
        if np.array_equal(graph.constants[row.value][at], np.arange(source.loops[loop])):
            return loop, number
    return None


def _parts(access: Access) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    return access.offset, access.matrix


def _walks(operand: Operand, loop: int, extent: int, shape: tuple[int, ...]) -> int | None:
    """The dimension that a loop walks over whole, if it moves along no other."""
    found = [j for j, row in enumerate(operand.access.matrix) if row[loop]]
    if len(found) != 1 or operand.fill is not None:
        return None
    row, j = operand.access.matrix[found[0]], found[0]
    alone = sum(map(bool, row)) == 1 and row[loop] == 1 and not operand.access.offset[j]
    return j if alone and shape[j] == extent else None


class _Work:
    """The graph in the making."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self.types = dict(graph.types)
        self.constants = dict(graph.constants)

    def looked_up(self, node: Compute, source: Compute, choice: int, table: int) -> list[Node] | None:
        """A contraction by a one-hot map as a gather; None where it is none."""
        hot = _one_hot(source, self.graph)
        weights = self.graph.constants.get(node.operands[table].value)
        inner = [i for i in range(node.parallel, len(node.loops)) if node.loops[i] > 1]
        if hot is None or weights is None or len(inner) != 1 or weights.dtype != node.expr.dtype.numpy:
            return None
        loop, number = hot
        extent = node.loops[inner[0]]
        dim = _walks(node.operands[table], inner[0], extent, weights.shape)
        if dim is None or _walks(node.operands[choice], inner[0], extent, source.loops) != loop:
            return None
        if not np.isfinite(weights).all() or weights.nbytes > FOLD_BYTES:
            return None
        number = self._numbers(node, node.operands[choice].access, number, extent)
        return self._gathered(node, node.operands[table], dim, number)

    def _numbers(self, node: Compute, access: Access, number: Operand, extent: int) -> Operand:
        """The numbers with all outside the table as the row of zeros behind it, read along the node's results."""
        kind = self.types[number.value]
        dtype = kind.dtype if kind.dtype == DType.I64 else DType.I32
        value = arg(0, kind.dtype).cast(dtype)
        row = select(value.op("lt", 0), const(extent, dtype), value.op("min", extent))
        name = self._unused(f"{node.output}~row")
        rank = len(kind.shape)
        whole = Operand(number.value, Access.identity(rank))
        self.types[name] = TensorType(dtype, kind.shape)
        self.nodes.append(Compute(f"{node.name}~row", name, node.source, kind.shape, rank, (whole,), expression(row)))
        return Operand(name, _cut(number.access.compose(access, len(node.loops)), node.parallel))

    def _gathered(self, node: Compute, weights: Operand, dim: int, number: Operand) -> list[Node]:
        """Rows of the table, and what follows the sum: on the table where it can be, else on what was picked."""
        array = self.graph.constants[weights.value] + 0  # a sum of products is never -0
        zeros = np.zeros_like(array.take([0], axis=dim))
        table = np.concatenate([array, zeros], axis=dim)
        access = _cut(weights.access, node.parallel)
        loops = node.loops[: node.parallel]
        before = self._on_table(node, table, access, dim)
        behind = node.post is not None and before is None
        name = self._unused(f"{weights.value}~rows")
        self.constants[name] = table if before is None else before
        self.types[name] = TensorType(DType.of(self.constants[name].dtype), table.shape)
        picked = self._unused(f"{node.output}~picked") if behind else node.output
        indices = tuple(number if j == dim else None for j in range(table.ndim))
        gather = Gather(node.name, picked, node.source, loops, Operand(name, access), indices)
        if not behind or node.post is None:
            return [gather]
        self.types[picked] = TensorType(self.types[name].dtype, loops)
        return [gather, _map(node, node.post, Operand(picked, Access.identity(node.parallel)), loops)]

    def _on_table(self, node: Compute, table: Array, access: Access, dim: int) -> Array | None:
        """The table with the node's ``post`` done; None where that reads other values, moves along other loops or is more
        work."""
        post = node.post
        if post is None or table.size > node.points or any(s.op == "index" for s in post.steps):
            return None
        used = {int(s.imm or 0) for s in post.steps if s.op == "arg" and s.imm != -1}
        reads = [node.operands[i] for i in sorted(used)]
        if any(o.value not in self.graph.constants or o.fill is not None for o in reads):
            return None
        at: dict[int, int] = {}
        for j, row in enumerate(access.matrix):
            moved = [i for i, c in enumerate(row) if c]
            if j != dim and len(moved) == 1 and row[moved[0]] == 1 and not access.offset[j]:
                at[moved[0]] = j
        turned = []
        for o in reads:
            moved = sorted({i for row in o.access.matrix for i, c in enumerate(row) if c})
            if any(i not in at or node.loops[i] != table.shape[at[i]] for i in moved):
                return None
            rows = [[0] * table.ndim for _ in o.access.matrix]
            for j, row in enumerate(o.access.matrix):
                for i in moved:
                    rows[j][at[i]] = row[i]
            turned.append(Operand(o.value, Access(o.access.offset, tuple(map(tuple, rows)))))
        places = {old: arg(1 + new, self.types[node.operands[old].value].dtype) for new, old in enumerate(sorted(used))}
        places[-1] = arg(0, node.expr.dtype)
        whole = Operand("", Access.identity(table.ndim))
        expr = expression(term_of(post, places))
        made = Compute("", "~", (), table.shape, table.ndim, (whole, *turned), expr)
        return evaluate_node(made, {**self.graph.constants, "": table}, table.shape)

    def _unused(self, name: str) -> str:
        while name in self.types:
            name += "'"
        return name


def _cut(access: Access, parallel: int) -> Access:
    return Access(access.offset, tuple(row[:parallel] for row in access.matrix))


def _map(node: Compute, post: Expr, picked: Operand, loops: tuple[int, ...]) -> Compute:
    """What follows the node's sum, as a map of the sums."""
    operands = [picked]
    places = {-1: arg(0, node.expr.dtype)}
    for step in post.steps:
        if step.op == "arg" and step.imm != -1 and int(step.imm or 0) not in places:
            old = node.operands[int(step.imm or 0)]
            places[int(step.imm or 0)] = arg(len(operands), step.dtype)
            operands.append(replace(old, access=_cut(old.access, node.parallel)))
    expr = expression(term_of(post, places))
    return Compute(f"{node.name}~post", node.output, node.source, loops, len(loops), tuple(operands), expr)
