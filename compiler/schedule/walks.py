"""How a contraction's loops are walked: as they stand, or with one batch loop cut so that several products share a pass."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from compiler.ir.access import Access
from compiler.ir.expr import Expr
from compiler.schedule.sides import group, roles

if TYPE_CHECKING:
    from compiler.ir.graph import Compute


@dataclass(frozen=True)
class Walk:
    """``out``: which element of the result a point of the loops makes. ``block``: the loop whose points are diagonal blocks
    of one pass; -1 for none."""

    node: Compute
    out: Access
    block: int = -1


def plain(node: Compute) -> Walk:
    """The loops as they stand."""
    return Walk(node, Access.identity(node.parallel, len(node.loops)))


def blocked(node: Compute, stationary: int, tile: tuple[int, int]) -> list[Walk]:
    """Walks that together are the contraction, products of its largest batch loop sharing passes; none if they do not fit."""
    r = roles(node, stationary)
    loop = max(r.batch, key=lambda i: node.loops[i], default=-1)
    if loop < 0 or _counts(node, loop):
        return []
    depth = columns = 1
    for i in r.inner:
        depth *= node.loops[i]
    for i in r.columns:
        columns *= node.loops[i]
    size = group(node.loops[loop], depth, columns, tile)
    if size < 2:
        return []
    whole = node.loops[loop] // size * size
    walks = [_cut(node, loop, 0, whole, size)]
    rest = node.loops[loop] - whole
    if rest:
        walks.append(_cut(node, loop, whole, rest, rest))
    return walks


def _counts(node: Compute, loop: int) -> bool:
    """Whether the epilogue asks for the coordinate of the loop."""
    return node.post is not None and any(s.op == "index" and s.imm == loop for s in node.post.steps)


def _cut(node: Compute, loop: int, start: int, count: int, size: int) -> Walk:
    """Points ``start`` ... ``start + count`` of a loop, as a loop over groups and a loop of ``size`` inside."""

    def access(a: Access) -> Access:
        offset = tuple(o + row[loop] * start for o, row in zip(a.offset, a.matrix, strict=True))
        rows = tuple((*row[:loop], row[loop] * size, row[loop], *row[loop + 1 :]) for row in a.matrix)
        return Access(offset, rows)

    def expr(e: Expr | None) -> Expr | None:
        if e is None:
            return None
        moved = [s.op == "index" and int(s.imm or 0) > loop for s in e.steps]
        return Expr(tuple(replace(s, imm=int(s.imm or 0) + 1) if m else s for s, m in zip(e.steps, moved, strict=True)))

    loops = (*node.loops[:loop], count // size, size, *node.loops[loop + 1 :])
    operands = tuple(replace(o, access=access(o.access)) for o in node.operands)
    out = access(Access.identity(node.parallel, len(node.loops)))
    new = replace(node, loops=loops, parallel=node.parallel + 1, operands=operands, post=expr(node.post))
    return Walk(new, out, loop + 1 if size > 1 else -1)
