"""Maps of joined values become joins of maps: what only a map reads is computed where its parts are made.

An activation behind a concatenation would read everything again once it is stored. Behind each part it is the end of the
operation that makes the part, in which it costs less or nothing.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir.access import Access
from compiler.ir.graph import Compute, Graph, Join, Node, Operand, Reshape
from compiler.passes.clean import dead_code, uses
from compiler.passes.rewriter import Rewriter
from compiler.passes.views import canonical


def behind_parts(graph: Graph) -> Graph:
    """Every map of a join that nobody else reads as maps of the join's parts, where these are made for it alone."""
    writer, counts = Rewriter(graph), uses(graph)
    for node in graph.nodes:
        join = _joined(node, writer) if isinstance(node, Compute) and _is_map(node) else None
        if isinstance(node, Compute) and join is not None and all(_is_own(p, node, writer, counts) for p in join.parts):
            writer.nodes += _parts(node, join, writer)
        else:
            writer.nodes.append(node)
    return dead_code(writer.done()) if len(writer.nodes) > len(graph.nodes) else graph


def _is_map(node: Compute) -> bool:
    """Whether a node gives an element for each point of its loops, wherever the point is."""
    return node.reducer is None and node.post is None and all(step.op != "index" for step in node.expr.steps)


def _joined(node: Compute, writer: Rewriter) -> Join | None:
    """The join that a map reads element by element, if it is that of one operand and only this map reads it."""
    found = [m for o in node.operands if isinstance(m := writer.makers.get(o.value), Join)]
    if len(found) != 1 or [n.output for n in writer.readers.get(found[0].output, [])] != [node.output]:
        return None
    whole = next(o for o in node.operands if o.value == found[0].output)
    same = canonical(whole.access, node.loops) == canonical(Access.identity(len(node.loops)), node.loops)
    same = same and writer.types[found[0].output].shape == node.loops
    kept = found[0].output not in writer.graph.outputs and found[0].guard == node.guard
    return found[0] if same and kept else None


def _is_own(part: str, node: Compute, writer: Rewriter, counts: dict[str, int]) -> bool:
    """Whether a part is what an operation makes for the join alone."""
    maker = writer.makers.get(part)
    if isinstance(maker, Reshape) and counts[part] == 1:
        part, maker = maker.input, writer.makers.get(maker.input)
    return isinstance(maker, Compute) and counts[part] == 1 and maker.guard == node.guard


def _parts(node: Compute, join: Join, writer: Rewriter) -> list[Node]:
    kind, at = writer.types[node.output], 0
    made: list[Node] = []
    for part in join.parts:
        shape = writer.types[part].shape
        operands = tuple(
            Operand(part, o.access) if o.value == join.output else _from(o, join.axis, at) for o in node.operands
        )
        output = writer.value(f"{node.output}~part", replace(kind, shape=shape))
        made.append(
            replace(
                node,
                name=writer.name(f"{node.name}~part"),
                output=output,
                loops=shape,
                parallel=len(shape),
                operands=operands,
            )
        )
        at += shape[join.axis]
    return [
        *made,
        Join(node.name, node.output, node.source, tuple(n.output for n in made), join.axis, guard=node.guard),
    ]


def _from(operand: Operand, loop: int, start: int) -> Operand:
    """The operand as a loop that begins at ``start`` reads it."""
    offset = tuple(o + row[loop] * start for o, row in zip(operand.access.offset, operand.access.matrix, strict=True))
    return replace(operand, access=Access(offset, operand.access.matrix))
