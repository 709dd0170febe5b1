"""What every graph must satisfy; run between passes in tests, and on every graph that the frontend hands out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from compiler.ir.access import Access
from compiler.ir.expr import FREE, REDUCED, Expr, Step
from compiler.ir.graph import (
    Compute,
    Gather,
    Graph,
    Join,
    Merge,
    Node,
    Operand,
    Reshape,
    Scatter,
    Sort,
    View,
    output_dtype,
    reads_of,
)
from compiler.ir.guards import problems as guard_problems
from compiler.ir.types import DType, TensorType
from compiler.numerics.scalar import check


class VerifyError(Exception):
    """A graph that breaks a rule: a defect of the frontend or of a pass, never of a model."""


def verify(graph: Graph) -> Graph:
    """The graph itself, or ``VerifyError`` with everything that is wrong."""
    problems = list(_problems(graph))
    if problems:
        raise VerifyError("; ".join(problems[:20]))
    return graph


def _problems(graph: Graph) -> Iterator[str]:
    yield from _names(graph)
    defined = {*graph.inputs, *graph.constants, *(s.input for s in graph.states)}
    for node in graph.nodes:
        yield from (f"{node.name!r}: {problem}" for problem in _placed(node, graph, defined))
        defined.add(node.output)
    yield from (f"output {name!r} is not defined" for name in graph.outputs if name not in defined)
    yield from _lengths(graph)
    for state in graph.states:
        if graph.types.get(state.update) != graph.types.get(state.input) or state.update not in defined:
            yield f"state {state.input!r} is not updated, or with another type"
    yield from guard_problems(graph)


def _names(graph: Graph) -> Iterator[str]:
    """Names that are given before the first node, and the nodes' own."""
    given = Counter((*graph.inputs, *graph.constants, *(s.input for s in graph.states)))
    for name, count in given.items():
        if count > 1 or name not in graph.types:
            yield f"{name!r} has two definitions or no type"
    for name, array in graph.constants.items():
        if graph.types.get(name) != TensorType(DType.of(array.dtype), array.shape):
            yield f"constant {name!r} is not {graph.types.get(name)}"
    nodes = Counter(node.name for node in graph.nodes)
    if len(nodes) < len(graph.nodes):
        yield f"nodes of one name: {sorted(name for name, count in nodes.items() if count > 1)}"


def _lengths(graph: Graph) -> Iterator[str]:
    for name, (axis, length) in graph.lengths.items():
        whole = length in graph.outputs and graph.types.get(length) == TensorType(DType.I64, ())
        kind = graph.types.get(name)
        if name not in graph.outputs or not whole or kind is None or not 0 <= axis < len(kind.shape):
            yield f"output {name!r} has no length {length!r} along axis {axis}"


def _placed(node: Node, graph: Graph, defined: set[str]) -> Iterator[str]:
    """A node's place in the graph, and when that is right the node itself."""
    unknown = [v for v in (*reads_of(node), node.output) if v not in graph.types]
    unknown += [v for v in reads_of(node) if v not in defined]
    if unknown:
        yield f"uses {unknown} before a definition or without a type"
    elif node.output in defined:
        yield f"defines {node.output!r} again"
    else:
        yield from _node(node, graph)
    if not node.source:
        yield "names no source operation"


def _node(node: Node, graph: Graph) -> Iterator[str]:
    out = graph.types[node.output]
    if isinstance(node, Compute):
        yield from _compute(node, graph, out)
    elif isinstance(node, View | Reshape | Join | Merge):
        yield from _moved(node, graph, out)
    elif isinstance(node, Gather):
        yield from _gather(node, graph, out)
    elif isinstance(node, Scatter):
        yield from _scatter(node, graph, out)
    elif isinstance(node, Sort):
        yield from _sort(node, graph.types[node.input], out)
    else:
        yield f"{type(node).__name__} is not a primitive"


def _moved(node: View | Reshape | Join | Merge, graph: Graph, out: TensorType) -> Iterator[str]:
    """The primitives that only rename or place elements."""
    if isinstance(node, View):
        yield from _operand(node.operand, graph, out.shape)
        if graph.types[node.operand.value].dtype != out.dtype:
            yield "a view changes the element type"
    elif isinstance(node, Reshape):
        source = graph.types[node.input]
        if (source.dtype, source.elements) != (out.dtype, out.elements):
            yield f"a reshape from {source} to {out}"
    elif isinstance(node, Join):
        yield from _join(node, [graph.types[p] for p in node.parts], out)
    elif not node.parts or any(graph.types[v] != out for _, v in node.parts):
        yield f"merges {[str(graph.types[v]) for _, v in node.parts]} to {out}"


def _compute(node: Compute, graph: Graph, out: TensorType) -> Iterator[str]:
    if node.shape != out.shape or node.parallel > len(node.loops):
        yield f"parallel loops {node.shape} do not make {out}"
    if (node.reducer is None) != (len(node.loops) == node.parallel):
        yield "a reducer needs reduction loops, and they need it"
    for operand in node.operands:
        yield from _operand(operand, graph, node.loops)
    types = {i: graph.types[o.value].dtype for i, o in enumerate(node.operands)}
    yield from _expression(node.expr, types, len(node.loops))
    if node.expr.steps and (node.post is None or node.post.steps):
        yield from _result(node, types, out)


def _result(node: Compute, types: dict[int, DType], out: TensorType) -> Iterator[str]:
    """What a node makes of its expression, which has steps."""
    if not _reduces(node):
        yield f"{node.reducer} does not reduce {node.expr.dtype.value}"
    if node.post is not None:
        outer = {i: t for i, t in types.items() if not node.operands[i].access.uses(node.inner)}
        yield from _expression(node.post, {REDUCED: node.expr.dtype, **outer}, node.parallel)
    if output_dtype(node) != out.dtype:
        yield f"computes {output_dtype(node).value} for {out}"


def _reduces(node: Compute) -> bool:
    """Whether its reducer, if it has one, is for elements of its type."""
    logical = node.expr.dtype == DType.BOOL
    return node.reducer is None or node.reducer in (("any", "all") if logical else ("sum", "max", "min", "prod"))


def _expression(expr: Expr, arguments: dict[int, DType], loops: int) -> Iterator[str]:
    if not expr.steps:
        yield "an expression without steps"
    for place, step in enumerate(expr.steps):
        if any(not 0 <= a < place for a in step.args):
            yield f"step {place} uses a later step"
        elif step.op in FREE:
            yield from _leaf(place, step, arguments, loops)
        else:
            problem = check(step.op, [expr.steps[a].dtype.numpy for a in step.args], step.dtype.numpy)
            if problem:
                yield problem


def _leaf(place: int, step: Step, arguments: dict[int, DType], loops: int) -> Iterator[str]:
    """A step that reads an operand, a literal or a loop's coordinate."""
    number = step.imm if isinstance(step.imm, int) else None
    if step.op == "const":
        yield from _literal(step.imm, step.dtype)
    elif step.op == "arg":
        if number is None or arguments.get(number) != step.dtype:
            yield f"step {place} reads operand {step.imm} as {step.dtype.value}"
    elif number is None or not 0 <= number < loops or step.dtype not in (DType.I64, DType.I32):
        yield f"step {place} asks for loop {step.imm}"


def _literal(value: float | None, dtype: DType) -> Iterator[str]:
    if value is None:
        yield "a literal without a value"
    elif not dtype.is_float:
        limits = (0, 1) if dtype == DType.BOOL else dtype.limits
        if not isinstance(value, int) or not limits[0] <= value <= limits[1]:
            yield f"{value!r} is no {dtype.value}"


def _operand(operand: Operand, graph: Graph, loops: tuple[int, ...]) -> Iterator[str]:
    kind = graph.types[operand.value]
    access = operand.access
    if len(access.offset) != len(kind.shape) or len(access.matrix) != len(kind.shape):
        yield f"an access of rank {len(access.offset)} to {operand.value!r}, {kind}"
    elif any(len(row) != len(loops) for row in access.matrix):
        yield f"an access to {operand.value!r} that does not use {len(loops)} loops"
    elif operand.fill is not None:
        yield from _literal(operand.fill, kind.dtype)
    elif 0 not in loops and not access.stays_inside(kind.shape, loops):
        yield f"reads outside {operand.value!r}, {kind}, and has no fill"


def _gather(node: Gather, graph: Graph, out: TensorType) -> Iterator[str]:
    data = graph.types[node.data.value]
    if node.loops != out.shape or data.dtype != out.dtype:
        yield f"gathers {data} to {out} over {node.loops}"
    if len(node.indices) != len(data.shape) or node.data.fill is not None:
        yield "an index, or none, is needed for each dimension of data, and no fill"
        return
    yield from _operand(Operand(node.data.value, node.data.access, 0), graph, node.loops)
    yield from _places(node.indices, node.data.access, node.loops, data.shape, graph)


def _places(
    indices: tuple[Operand | None, ...], access: Access, loops: tuple[int, ...], shape: tuple[int, ...], graph: Graph
) -> Iterator[str]:
    """What decides every coordinate: an index value, or an access that stays inside."""
    for j, index in enumerate(indices):
        if index is None and j < len(access.offset):
            low, high = access.range(j, loops)
            if 0 not in loops and (low < 0 or high >= shape[j]):
                yield f"goes outside dimension {j} of {list(shape)}"
        elif index is not None:
            yield from _operand(index, graph, loops)
            if graph.types[index.value].dtype not in (DType.I64, DType.I32):
                yield f"{index.value!r} is no index"


def _scatter(node: Scatter, graph: Graph, out: TensorType) -> Iterator[str]:
    """Rules of a gather, with the output in the place of the data that is read."""
    if graph.types[node.data] != out or graph.types[node.update.value].dtype != out.dtype:
        yield f"scatters {graph.types[node.update.value]} into {graph.types[node.data]} for {out}"
    if node.reducer not in (None, "sum", "prod", "max", "min") or (node.reducer and out.dtype == DType.BOOL):
        yield f"{node.reducer} does not combine {out.dtype.value}"
    yield from _operand(node.update, graph, node.loops)
    if len(node.indices) != len(out.shape):
        yield "an index, or none, is needed for each dimension of the output"
        return
    yield from _operand(Operand(node.output, node.target, 0), graph, node.loops)
    yield from _places(node.indices, node.target, node.loops, out.shape, graph)


def _sort(node: Sort, source: TensorType, out: TensorType) -> Iterator[str]:
    whole = source.dtype.value[0] in "iu" and bool(source.shape)
    if not whole or out != TensorType(source.dtype, (*source.shape[:-1], node.keep)):
        yield f"sorts {source} to {out}"
    elif not 0 < node.keep <= source.shape[-1]:
        yield f"keeps {node.keep} of {source}"


def _join(node: Join, parts: Sequence[TensorType], out: TensorType) -> Iterator[str]:
    if not parts or not 0 <= node.axis < len(out.shape):
        yield f"joins {len(parts)} parts along axis {node.axis}"
        return
    rest = out.shape[: node.axis] + out.shape[node.axis + 1 :]
    for part in parts:
        if part.dtype != out.dtype or part.shape[: node.axis] + part.shape[node.axis + 1 :] != rest:
            yield f"joins {part} into {out}"
    if sum(p.shape[node.axis] for p in parts if len(p.shape) > node.axis) != out.shape[node.axis]:
        yield f"parts of {[p.shape for p in parts]} do not make {out}"
