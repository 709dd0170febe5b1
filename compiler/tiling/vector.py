"""Maps and reductions on the vector unit, in pieces of the parallel loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import isqrt, prod

import numpy as np

from compiler.errors import ModelError
from compiler.ir import Access, Compute, Operand
from compiler.isa import Instruction, Op
from compiler.isa.timing import tree_depth
from compiler.numerics.reduce import REDUCER_CODES
from compiler.passes.fuse import MAX_STREAMS
from compiler.passes.row_tiling import in_strip
from compiler.tiling import loop_nests
from compiler.tiling import place as pl
from compiler.tiling.readers import fetches, loop_strides, nest
from compiler.tiling.tile import make
from compiler.tiling.tiler import Groups, Tiler, aligned, pieces, program

PIECES = 12  # pieces that a large map is cut into, so that layers overlap
FOLLOWING = 48  # and one that is worked on while an image comes in: its readers stay close behind it
SLOWER = 1.05  # a walk in another order than memory's may take so many times longer
SHORTEST = 16  # cycles of a piece
IN_STRIPS = 20  # likewise of a strip, which is cut into fewer: another strip is there to work on
IMAGE = 3  # dimensions of an image: rows, pixels, channels
FEW = 12  # cycles of the vector unit that are no burden to it
CLEARLY = 1.1  # times the cycles that make one cut of a copy worse than another
CHAIN = REDUCER_CODES["chain"]
FIELDS = ("a", "b", "c", "d")
Blocks = list[tuple[pl.Range, pl.Range]]  # pieces: ranges of rows and of inner points


def emit(node: Compute, tiler: Tiler) -> None:
    """Make the tiles of a map or a reduction whose operands are read where they lie."""
    append(node, pieces_of(node, tiler, {}), {}, tiler)


def append(node: Compute, instructions: list[Instruction], copies: Mapping[int, str], tiler: Tiler) -> None:
    """Make tiles of the instructions of a node; ``copies``: what is read instead of some operands."""
    values = {field: copies.get(i, o.value) for i, (field, o) in enumerate(zip(FIELDS, node.operands, strict=False))}
    for instruction in instructions:
        tiler.tiles.append(make(tiler.space, instruction, values, node.output))


def pieces_of(node: Compute, tiler: Tiler, homes: Mapping[int, pl.Place]) -> list[Instruction]:
    """The instructions of a map or a reduction, cut along the dimension in which its readers follow, unless that takes clearly
    more cycles. ``homes``: other places of some operands."""
    order = tiler.storage_order(node.output, list(range(node.parallel)))
    best = _cut(loop_nests.plain(node), order, tiler, homes)
    along, pieces = tiler.layout.deep.get(node.output, (-1, 0))
    if along >= 0 and node.reducer is None:
        walk, turned = loop_nests.interchanged(node, order, along, pieces)
    else:
        inner = tiler.layout.needed_whole.get(node.output, frozenset())
        walk, turned = loop_nests.interchanged_for_readers(node, order, inner, PIECES)
    if walk.node is not node:
        stretches = _cut(walk, turned, tiler, homes)
        if beats(stretches, tiler) <= beats(best, tiler) * SLOWER:
            best = stretches
    return best


def _cut(walk: loop_nests.LoopNest, order: list[int], tiler: Tiler, homes: Mapping[int, pl.Place]) -> list[Instruction]:
    """The pieces of a map or a reduction."""
    whole = _whole(walk, order, tiler, homes)
    size = _size(walk.node, whole.count1, whole.count2, tiler)
    if walk.out != loop_nests.plain(walk.node).out:  # a stretch at a time
        stretch = whole.count1 // walk.node.loops[order[0]]
        size = stretch * max(1, size // stretch) if stretch * whole.count2 <= tiler.target.vector.tile else size
    return [whole._replace(start1=start, count1=count) for start, count in pieces(whole.count1, size)]


def beats(instructions: list[Instruction], tiler: Tiler) -> int:
    """Cycles for which instructions keep their unit, one behind the other."""
    return sum(tiler.space.timings.of(i).beats for i in instructions)


def _whole(walk: loop_nests.LoopNest, order: list[int], tiler: Tiler, homes: Mapping[int, pl.Place]) -> Instruction:
    """The whole operation as one instruction, of which pieces are taken."""
    node = walk.node
    inner = list(range(node.parallel, len(node.loops)))
    _check(node, tiler.target.vector.tile)
    body = node.expr.reads.keys()
    groups: Groups = ((), tuple(order), tuple(inner))
    flat: Groups = ((), tuple(order), ())
    references = []
    for i, operand in enumerate(node.operands):
        place = _constant(operand, node, order, inner, tiler) if tiler.is_constant(operand.value) else homes.get(i)
        references.append(tiler.read(operand, node.loops, groups if i in body else flat, place))
    out = tiler.space.stream(pl.stream(tiler.place(node.output), walk.out, node.loops, flat))
    positions = {i: i for i in range(len(node.operands))}
    loops = {i: at for at, i in enumerate(order + inner)}
    pre = 0
    if not (node.reducer and node.expr.is_identity and node.expr.steps[0].imm == 0):
        pre = tiler.space.pool.program(program(node.expr, positions, loops))
    post = tiler.space.pool.program(program(node.post, positions, loops)) if node.post else 0
    return Instruction(
        Op.VECTOR,
        0,
        source=tiler.source,
        out=out,
        pre=pre,
        post=post,
        reducer=_reducer(node),
        count1=prod(node.loops[i] for i in order),
        count2=prod(node.loops[i] for i in inner),
        **dict(zip(FIELDS, references, strict=False)),
    )


def quicker(node: Compute, tiler: Tiler, planes: int) -> bool:
    """Whether the vector unit takes less time for a contraction than so many cycles of ``planes``. Where it is a few cycles of
    work, which it has to spare, what counts is how soon the result is there: planes take longer from their first row to
    their first result."""
    target = tiler.target
    later = target.matrix.latency - (tree_depth(node.reduction) if _reducer(node) != CHAIN else 0)
    taken = cycles(node, tiler, planes + max(0, later))
    if taken is None:
        return False
    if taken < planes:
        return True
    work = taken - target.vector.latency
    few = work <= min(FEW, tiler.spare) and taken < planes + later
    tiler.spare -= work if few else 0
    return few


def cycles(node: Compute, tiler: Tiler, enough: int) -> int | None:
    """How long the vector unit takes for a contraction; None when it cannot take it, or takes more than ``enough``."""
    target = tiler.target
    if len(node.operands) > MAX_STREAMS or node.reduction > target.vector.tile:
        return None
    rows = -(-node.points // target.vector.lanes)
    least = (
        rows * node.reduction if _reducer(node) == CHAIN else -(-node.points * node.reduction // target.vector.lanes)
    )
    if least // target.vector.instances > enough:
        return None
    whole = _whole(loop_nests.plain(node), tiler.storage_order(node.output, list(range(node.parallel))), tiler, {})
    count = min(whole.count1, _size(node, whole.count1, whole.count2, tiler))
    beats = tiler.space.timings.of(whole._replace(count1=count)).beats
    return beats * -(-whole.count1 // count) // target.vector.instances + target.vector.latency


def _reducer(node: Compute) -> int:
    """A contraction's sum is ascending by definition; integers are the same in any order, so they may use the tree."""
    if node.reducer is None:
        return 0
    ordered = node.is_contraction and node.expr.dtype.is_float
    return REDUCER_CODES["chain" if ordered else node.reducer]


def _check(node: Compute, tile: int) -> None:
    if not tile:
        raise ModelError(
            "it needs the unit 'vector', which the processor does not have; choose another target", node=node.name
        )
    if len(node.operands) > MAX_STREAMS:
        raise ModelError(
            f"an expression of {len(node.operands)} operands does not fit the vector unit, which takes "
            f"{MAX_STREAMS}; split the operation in two",
            node=node.name,
        )
    if node.reduction > tile:
        raise ModelError(
            f"it reduces {node.reduction} elements into one, the vector unit takes {tile}; reduce in two steps",
            node=node.name,
        )


def _size(node: Compute, points: int, depth: int, tiler: Tiler) -> int:
    """Points of one piece: whole lines of the output, at most the unit's tile."""
    target = tiler.target
    most = max(1, target.vector.tile // max(1, depth))
    follows = points * depth // target.vector.lanes < tiler.coming
    first = follows and any(o.value in tiler.graph.inputs for o in node.operands)  # what comes in is waited for
    shortest = IN_STRIPS if in_strip(node) else SHORTEST
    least = target.vector.lanes if first else -(-target.vector.lanes * shortest // max(1, depth))
    wanted = max(least, -(-points // (FOLLOWING if follows else PIECES)))
    size = tiler.graph.types[node.output].dtype.size
    if not _reduces_along_lines(node, tiler):
        wanted = aligned(wanted, size, target.line_bytes)
        row = _row(node, tiler)
        if row:
            wanted = max(1, round(wanted / row)) * row
    if wanted > most:
        step = target.line_bytes // size
        wanted = most // step * step or most
    return max(1, min(points, wanted))


def _row(node: Compute, tiler: Tiler) -> int:
    """Elements of a row of the result's image, channels side by side, that ends on a line; 0 where none does."""
    place = tiler.place(node.output)
    if node.parallel > len(place.shape):  # a walk in stretches
        return 0
    order = [i for i in tiler.storage_order(node.output, list(range(node.parallel))) if node.loops[i] > 1]
    image = order[-IMAGE:-1] == list(range(node.parallel - IMAGE + 1, node.parallel))
    if not image or place.strides[order[-IMAGE]] % tiler.target.line_bytes:
        return 0
    return node.loops[order[-2]] * node.loops[order[-1]]


def _reduces_along_lines(node: Compute, tiler: Tiler) -> bool:
    """Whether what is reduced lies side by side: then short pieces cost no more line fetches than long ones."""
    inner = [i for i in range(node.parallel, len(node.loops)) if node.loops[i] > 1]
    if not inner or node.reducer is None:
        return False
    body = node.expr.reads.keys()
    steps = [loop_strides(tiler.place(o.value), node, i)[inner[-1]] for i, o in enumerate(node.operands) if i in body]
    return all(
        step in (0, tiler.graph.types[o.value].dtype.size) for step, o in zip(steps, node.operands, strict=False)
    )


def _constant(operand: Operand, node: Compute, order: list[int], inner: list[int], tiler: Tiler) -> pl.Place | None:
    """A constant stored in the order in which the loops walk over it, when that differs from the model's: of reduced loops
    outside and inside the others, the one that takes fewer line fetches."""
    t = tiler.graph.types[operand.value]

    def touched(dims: tuple[int, ...]) -> int:
        place = pl.Place("", t.dtype, t.shape, 0, pl.ordered_strides(t.shape, dims, t.dtype.size))
        strides = loop_strides(place, node, node.operands.index(operand))
        counts = prod(node.loops[i] for i in order), prod(node.loops[i] for i in inner)
        nests = nest(node, strides, order), nest(node, strides, inner)
        return fetches(t.dtype.size, *nests, counts, tiler.target.line_bytes)

    orders = (walked(operand, loops) for loops in (inner + order, order + inner))
    dims = min(dict.fromkeys(orders), key=touched)
    return None if dims == tuple(range(len(t.shape))) or t.elements <= 1 else relaid(operand.value, dims, tiler)


def walked(operand: Operand, loops: list[int]) -> tuple[int, ...]:
    """The dimensions of an operand in the order in which ``loops`` walk over them, the outermost first."""
    rank = {loop: at for at, loop in enumerate(loops)}
    keys = [max((rank[i] for i in operand.access.loops(j)), default=-1) for j in range(len(operand.access.matrix))]
    return tuple(sorted(range(len(keys)), key=lambda j: (keys[j], j)))


def relaid(value: str, dims: tuple[int, ...], tiler: Tiler) -> pl.Place:
    """A constant with its dimensions stored in another order (outermost first)."""
    array = tiler.graph.constants[value]
    name = tiler.store((value, dims), value, lambda: np.ascontiguousarray(array.transpose(dims)))
    t = tiler.graph.types[value]
    return pl.Place(name, t.dtype, t.shape, 0, pl.ordered_strides(t.shape, dims, t.dtype.size))


def copy(
    source: pl.Place,
    target: pl.Place,
    access: Access,
    fill: float | None,
    names: tuple[str, str],
    tiler: Tiler,
    whole: frozenset[int] = frozenset(),
) -> None:
    """MOVE tiles that store ``source`` through ``access`` at ``target`` (whose dimensions are the loops); of the dimensions
    ``whole`` readers need all for each of their results."""
    tiler.whole(source)
    for instruction in moves(source, target, access, fill, tiler, whole):
        tiler.tiles.append(make(tiler.space, instruction, {"a": names[0]}, names[1]))


def moves(
    source: pl.Place,
    target: pl.Place,
    access: Access,
    fill: float | None,
    tiler: Tiler,
    whole: frozenset[int] = frozenset(),
) -> list[Instruction]:
    """The instructions of a copy: of whole inner loops, or of blocks that are read along lines and written along lines,
    where these take clearly fewer cycles."""
    extents, size = target.shape, target.dtype.size
    groups = _directions(source, target, access, whole)
    a = tiler.space.stream(pl.stream(source, access, extents, groups, fill))
    out = tiler.space.stream(pl.stream(target, Access.identity(len(extents)), extents, groups))

    def made(pieces: Blocks) -> list[Instruction]:
        return [tiler.instruction(Op.MOVE, rows, inner, a=a, out=out) for rows, inner in pieces]

    plain = made(blocks(groups, extents, size, tiler))
    return quickest(plain, map(made, squared(groups, extents, size, tiler)), tiler)


def quickest(plain: list[Instruction], others: Iterable[list[Instruction]], tiler: Tiler) -> list[Instruction]:
    """Of several cuts of a copy the one of fewest cycles, with those that a reader of the first piece waits for counted twice;
    the plain one unless another takes clearly less."""

    def price(cut: list[Instruction]) -> int:
        return beats(cut, tiler) + beats(cut[:1], tiler)

    best = min(others, key=price, default=plain)
    return best if price(best) * CLEARLY < price(plain) else plain


def _directions(source: pl.Place, target: pl.Place, access: Access, whole: frozenset[int]) -> Groups:
    """Loops in the target's order, but for the outermost that readers walk along, which comes first; cut after the loop along
    which the source is contiguous."""
    n = len(target.shape)
    order = sorted(range(n), key=lambda i: (-abs(target.strides[i]), i))
    wide = [i for i in order if target.shape[i] > 1]
    first = [i for i in wide[:-1] if i not in whole][:1]
    order = [*first, *(i for i in order if i not in first)]
    size = source.dtype.size
    along = [i for i, step in enumerate(source.along(access, n)) if abs(step) == size and target.shape[i] > 1]
    cut = order.index(along[-1]) + 1 if along else n
    return ((), tuple(order[:cut]), tuple(order[cut:]))


def blocks(groups: Groups, extents: tuple[int, ...], size: int, tiler: Tiler) -> Blocks:
    """Pieces of the rows and of the inner loops: whole lines, at most a tile, about ``PIECES`` of them."""
    rows, inner = (prod(extents[i] for i in group) for group in groups[1:])
    limit = tiler.target.move.tile
    line = max(1, tiler.target.line_bytes // size)
    wanted = min(limit, max(line * 16, -(-rows * inner // PIECES)))
    if inner <= wanted:
        count = aligned(max(1, wanted // inner), inner * size, tiler.target.line_bytes)
        if count * inner > limit:
            count = max(1, limit // inner)
        return [(r, (0, inner)) for r in pieces(rows, count)]
    width = max(1, min(limit, wanted // line * line or wanted))
    count = max(1, wanted // width)
    return [(r, c) for r in pieces(rows, count) for c in pieces(inner, width)]


def squared(groups: Groups, extents: tuple[int, ...], size: int, tiler: Tiler) -> Iterator[Blocks]:
    """Ways to cut rows and inner loops into blocks that have as many rows as lie side by side in one operand, and as many inner
    points as do in the other: of about as many elements as ``blocks`` takes, and of as many as an instruction can."""
    rows, inner = (prod(extents[i] for i in group) for group in groups[1:])
    line, most = max(1, tiler.target.line_bytes // size), tiler.target.move.tile
    run = next((extents[i] for i in reversed(groups[1]) if extents[i] > 1), 1)
    some = min(most, max(line * 16, -(-rows * inner // PIECES)))
    for wanted, count in dict.fromkeys((n, min(run, r)) for n in (some, most) for r in (run, line, isqrt(n)) if r <= n):
        width = min(inner, wanted // count)
        width = width // line * line or width
        yield [(r, c) for c in pieces(inner, width) for r in pieces(rows, count)]
