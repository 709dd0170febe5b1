"""Loop transformations of a contraction or a map: which loops, in which order, and which of them are cut.

A plane wants full passes: products of a batch, rows, or columns left over are packed as blocks on the diagonal of one pass. A map
is walked in the order that its readers wait for (loop interchange and strip mining: M. Wolfe, "High Performance Compilers for
Parallel Computing", 1996).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from compiler.costs import blocks_that_fit, epilogue_stages, plane_tile, product_shape, products_per_pass, roles
from compiler.ir import Access, Compute, Expr, Step
from compiler.isa import Machine
from compiler.tiling.place import Place

GAIN = 2  # columns left over that move instead take so many times fewer rows, or wait in vain for what then stays


@dataclass(frozen=True)
class LoopNest:
    """A node with loops as they are to be walked.

    ``out``: which element of the result a point of the loops makes. ``block``: the loop whose points are diagonal blocks of one
    pass; -1 for none. ``stationary``: the factor that stays in the planes; -1: as the layout says. ``band``: cells that a guard
    of that factor excludes are off. ``apart``: a loop over columns of which every point is a product of its own. ``places``: of
    the operands, then of the result, where they are not those of the layout (see ``loop_collapsing``).
    """

    node: Compute
    out: Access
    block: int = -1
    stationary: int = -1
    band: bool = False
    apart: int = -1
    places: tuple[Place, ...] = ()


def plain(node: Compute) -> LoopNest:
    """The loops as they stand."""
    return LoopNest(node, Access.identity(node.parallel, len(node.loops)))


def packed_batch(nest: LoopNest, stationary: int, tile: tuple[int, int]) -> list[LoopNest]:
    """Loop nests that together are the contraction, products of its largest batch loop sharing passes; none if none fit."""
    node = nest.node
    r = roles(node, stationary)
    loop = max(r.batch, key=lambda i: node.loops[i], default=-1)
    if loop < 0 or _counts(node, loop):
        return []
    depth = prod(node.loops[i] for i in r.inner)
    columns = prod(node.loops[i] for i in r.columns if i != nest.apart)
    size = products_per_pass(node.loops[loop], depth, columns, tile)
    if size < 2:
        return []
    whole = node.loops[loop] // size * size
    nests = [_block(nest, loop, 0, whole, size)]
    rest = node.loops[loop] - whole
    if rest:
        nests.append(_block(nest, loop, whole, rest, rest))
    return nests


def packed_columns(node: Compute, stationary: int, machine: Machine) -> list[LoopNest]:
    """Loop nests in which a part of the columns is a product of its own, so that more products of a batch share a pass: where all
    columns of one product leave much of a plane empty. The part with the fewest cycles; none where no part fits twice."""
    r = roles(node, stationary)
    loop = max(r.columns, key=lambda i: node.loops[i], default=-1)
    if loop < 0 or not r.batch or _counts(node, loop):
        return []
    batch, tile = max(node.loops[i] for i in r.batch), plane_tile(node, stationary, machine)
    _, rows, columns, depth = product_shape(node, stationary)
    extent = node.loops[loop]
    beats = rows * epilogue_stages(node.post, machine)
    found = []
    for size in (n for n in range(2, extent) if extent % n == 0):
        together = products_per_pass(batch, depth, columns // extent * size, tile)
        loads = -(-together * depth // machine.weights.ports["a"])  # a line for every row of the weights
        if together > 1:
            found.append((-(-batch // together) * (extent // size) * max(beats, loads), -size))
    if not found:
        return []
    size = -min(found)[1]
    return packed_batch(replace(split(plain(node), loop, size), stationary=stationary, apart=loop), stationary, tile)


def packed_remainder(nest: LoopNest, stationary: int, tile: tuple[int, int]) -> list[LoopNest]:
    """The columns that fill planes, and those left over with neighbouring rows as blocks of one pass; none where nothing is
    left over, or too much for two rows to share a pass."""
    node = nest.node
    r = roles(node, stationary)
    batch, _, columns, depth = product_shape(node, stationary)
    loop = max(r.columns, key=lambda i: node.loops[i], default=-1)
    if batch > 1 or columns <= tile[1] or columns % tile[1] == 0 or loop < 0 or _counts(node, loop):
        return []
    extent = node.loops[loop]
    each = columns // extent
    whole = extent * each // tile[1] * tile[1] // each
    sizes = _divisors(node, r.rows, blocks_that_fit(depth, each * (extent - whole), tile) if whole else 0)
    along = max(sizes, key=lambda i: sizes[i], default=-1)
    if along < 0 or sizes[along] < 2 or _counts(node, along):
        return []
    first, rest = (
        replace(_cut(nest, loop, start, count, count), stationary=stationary)
        for start, count in ((0, whole), (whole, extent - whole))
    )
    at = along + (along > loop)
    return [first, replace(split(rest, at, sizes[along]), block=at + 1)]


def _divisors(node: Compute, loops: list[int], most: int) -> dict[int, int]:
    """By loop the largest number up to ``most`` that divides its extent; 1 where there is none."""
    return {i: max((d for d in range(1, most + 1) if node.loops[i] % d == 0), default=1) for i in loops}


def swapped_remainder(nest: LoopNest, stationary: int, machine: Machine) -> list[LoopNest]:
    """The columns that fill planes, and those left over as rows that move past the other factor; none where nothing is left
    over or that takes no fewer rows."""
    node = nest.node
    r = roles(node, stationary)
    width, across = (plane_tile(node, side, machine)[1] for side in (stationary, 1 - stationary))
    batch, rows, columns, _ = product_shape(node, stationary)
    loop = max(r.columns, key=lambda i: node.loops[i], default=-1)
    if batch > 1 or columns <= width or loop < 0 or _counts(node, loop):
        return []
    extent = node.loops[loop]
    each = columns // extent
    whole = columns // width * width // each
    if whole in (0, extent) or GAIN * (extent - whole) * each * -(-rows // across) >= rows:
        return []
    return [
        replace(_cut(nest, loop, start, count, count), stationary=side)
        for start, count, side in ((0, whole, stationary), (whole, extent - whole, 1 - stationary))
    ]


def packed_rows(node: Compute, stationary: int, tile: tuple[int, int]) -> list[LoopNest]:
    """Loop nests in which neighbouring rows are blocks of one pass by the same weights; the widest first, none if they do not
    fit or are themselves one of a batch."""
    r = roles(node, stationary)
    batch, _, columns, depth = product_shape(node, stationary)
    most = blocks_that_fit(depth, columns, tile)
    if most < 2 or batch > 1 or _counts(node):
        return []
    sizes = _divisors(node, r.rows, most)
    found = sorted((i for i in r.rows if sizes[i] > 1), key=lambda i: (-sizes[i], -i))
    nest = replace(plain(node), stationary=stationary)
    return [replace(split(nest, i, sizes[i]), block=i + 1) for i in found]


def _block(nest: LoopNest, loop: int, start: int, count: int, size: int) -> LoopNest:
    """Points of a batch loop, ``size`` of them as blocks of one pass."""
    return replace(_cut(nest, loop, start, count, size), block=loop + 1 if size > 1 else -1)


def split(nest: LoopNest, loop: int, size: int) -> LoopNest:
    """A loop as two: over groups of ``size``, which divides it, and within them."""
    return _cut(nest, loop, 0, nest.node.loops[loop], size)


def _counts(node: Compute, loop: int | None = None) -> bool:
    """Whether what follows the sum asks for the coordinate of the loop (of any, for None)."""
    return node.post is not None and node.post.counts(loop)


def interchanged_for_readers(
    node: Compute, order: list[int], inner: frozenset[int], pieces: int
) -> tuple[LoopNest, list[int]]:
    """A map's loops in storage ``order``, or with a loop in front that its readers walk along.

    ``inner``: dimensions of the result that readers need whole. Where one of them is outermost in memory, the first other
    loop is cut into about ``pieces`` stretches that come first, so that readers need not wait for everything.
    """
    wide = [i for i in order if node.loops[i] > 1]
    along = next((i for i in wide if i not in inner), -1)
    return interchanged(node, order, along, pieces)


def interchanged(node: Compute, order: list[int], along: int, pieces: int) -> tuple[LoopNest, list[int]]:
    """A map's loops with ``along`` in front, in at most so many stretches; as they stand where that is impossible, or
    where ``along`` (-1: none) is outermost anyway."""
    wide = [i for i in order if node.loops[i] > 1]
    if along < 0 or along == wide[0] or _counts(node, along) or node.expr.counts():
        return plain(node), order
    extent = node.loops[along]
    size = next(d for d in range(1, extent + 1) if extent % d == 0 and extent // d <= pieces)
    nest = split(plain(node), along, size)
    moved = [i + (i > along) for i in order]
    at = moved.index(along)
    return nest, [along, *moved[:at], along + 1, *moved[at + 1 :]]


def _cut(nest: LoopNest, loop: int, start: int, count: int, size: int) -> LoopNest:
    """Points ``start`` ... ``start + count`` of a loop, as a loop over groups and a loop of ``size`` inside."""
    node = nest.node
    assert not _counts(node, loop), "no coordinate is left of a loop that is cut"

    def access(a: Access) -> Access:
        return a.shifted(loop, start).split(loop, (count // size, size))

    def moved(step: Step) -> Step:
        behind = step.op == "index" and int(step.imm or 0) > loop
        return replace(step, imm=int(step.imm or 0) + 1) if behind else step

    post = node.post and Expr(tuple(map(moved, node.post.steps)))
    loops = (*node.loops[:loop], count // size, size, *node.loops[loop + 1 :])
    operands = tuple(replace(o, access=access(o.access)) for o in node.operands)
    new = replace(node, loops=loops, parallel=node.parallel + 1, operands=operands, post=post)
    return replace(nest, node=new, out=access(nest.out), apart=nest.apart + (nest.apart > loop))
