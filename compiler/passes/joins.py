"""Maps of joined values become joins of maps: what only a map reads is computed where its parts are made.

An activation behind a concatenation would read everything again once it is stored. Behind each part it is the end of the
operation that makes the part, in which it costs less or nothing.
"""

from __future__ import annotations

from dataclasses import replace

from compiler.ir import Access, Compute, Graph, Join, Node, Reshape
from compiler.passes.clean import dead_code, uses
from compiler.passes.rewriter import Rewriter
from compiler.passes.views import canonical


def behind_parts(graph: Graph) -> Graph:
    """Every map of a join that nobody else reads as maps of the join's parts, where these are made for it alone."""
    writer, counts = Rewriter(graph), uses(graph)

    def made(node: Compute) -> list[Node] | None:
        join = _joined(node, writer) if node.is_map and not node.indices else None
        if join is None or not all(_is_own(part, node, writer, counts) for part in join.parts):
            return None
        return _parts(node, join, writer)

    found = writer.each(made, Compute)
    return graph if found is graph else dead_code(found)


def _joined(node: Compute, writer: Rewriter) -> Join | None:
    """The join that a map reads element by element, if it is that of one operand and only this map reads it."""
    found = [m for o in node.operands if isinstance(m := writer.makers.get(o.value), Join)]
    if len(found) != 1 or [n.output for n in writer.readers.get(found[0].output, [])] != [node.output]:
        return None
    whole = next(o for o in node.operands if o.value == found[0].output)
    plain = canonical(Access.identity(len(node.loops)), node.loops)
    same = canonical(whole.access, node.loops) == plain and writer.types[whole.value].shape == node.loops
    return found[0] if same and whole.value not in writer.graph.kept and found[0].guard == node.guard else None


def _is_own(part: str, node: Compute, writer: Rewriter, counts: dict[str, int]) -> bool:
    """Whether a part is what an operation makes for the join alone."""
    maker = writer.makers.get(part)
    if isinstance(maker, Reshape) and counts[part] == 1:
        part, maker = maker.input, writer.makers.get(maker.input)
    return isinstance(maker, Compute) and counts[part] == 1 and maker.guard == node.guard


def _parts(node: Compute, join: Join, writer: Rewriter) -> list[Node]:
    kind, at = writer.types[node.output], 0
    made: list[Compute] = []
    for part in join.parts:
        shape = writer.types[part].shape
        operands = tuple(
            replace(o, value=part) if o.value == join.output else o.read_by(o.access.shifted(join.axis, at))
            for o in node.operands
        )
        name, value = writer.name(f"{node.name}~part"), writer.value(f"{node.output}~part", replace(kind, shape=shape))
        made.append(replace(node, name=name, output=value, loops=shape, parallel=len(shape), operands=operands))
        at += shape[join.axis]
    parts = tuple(n.output for n in made)
    return [*made, Join(node.name, node.output, node.source, parts, join.axis, guard=node.guard)]
