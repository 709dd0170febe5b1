"""Contractions on the planes: weight tiles, chains of K tiles that accumulate, rows and columns spread over the planes."""

from __future__ import annotations

from compiler.isa import Flag, Instruction, Op
from compiler.tiling import place as pl
from compiler.tiling.chains import Step
from compiler.tiling.cut import Cut
from compiler.tiling.gemm import Gemm, column_tiles, extras, held, load_beats, weights
from compiler.tiling.tile import Tile, make, resident
from compiler.tiling.tiler import Tiler, pieces
from compiler.tiling.toeplitz import cells

ROWS = (32, 64, 128, 320)  # of one MATMUL: long enough to hide a weight load, short enough for layers to overlap
SLOTTED = (8, 16)  # rows beside these where loads are behind other products, which more of them are
MANY = 32  # chains of one row of pieces that hide each other's loads without
BESIDE = 2  # part of a load's cycles that it then counts for
SHORT = 16  # likewise of bands that follow an image which comes in: the fewest that hide their loads
EVEN = (16, 64)  # rows of one plane that are dealt evenly: more are pieces, fewer do not hide a load
HALVES = 2  # of the rows of a result too small to give every plane whole columns
FEW = 4  # rows of a product below which it is hardly worth a load
STEPS = 4  # products of so few rows by one constant, between which planes keep it
KEPT = 2  # part of all weight slots that it may take
STREAMED = 4  # cycles of all weight ports in which it may as well be loaded anew each time
_FIRST, _LAST, _LOADW, _MATMUL = int(Flag.FIRST), int(Flag.LAST), int(Op.LOADW), int(Op.MATMUL)  # plain: tiles are many
FOLLOWING = 2  # part of their cycles that planes may lose to weights of bands that follow an image which comes in
CHAIN_ROWS = 128  # rows that one pass over all K tiles finishes on a plane, where weights have to change anyway


def choose(f: Gemm, tiler: Tiler) -> Cut:
    """The cut with the fewest cycles on the busiest plane; among nearly equal ones that which finishes rows earliest.

    Found once for all contractions of one form: those of repeated blocks, and the strips of one."""
    form = _form(f, tiler)
    if form is None:
        return _chosen(f, tiler)
    if form not in tiler.cuts:
        tiler.cuts[form] = _chosen(f, tiler)
    return tiler.cuts[form]


def _form(f: Gemm, tiler: Tiler) -> tuple[object, ...] | None:
    """All that the choice of a cut goes by, without names and addresses; None for bands, which are few."""
    if f.band:
        return None
    form, types = tiler.space.timings.form, tiler.graph.types
    fixed = f.node.operands[f.roles.stationary]
    return (
        *(f.batch, f.m, f.n, f.k, f.blocks, f.shared, f.tile, f.row_step, f.column_step, f.post),
        *(form(reference) for reference in (f.a, f.out, *f.extra)),
        types[f.node.output].dtype,
        types[fixed.value].dtype,
        tiler.is_constant(fixed.value),
        tiler.used[fixed.value] >= STEPS,
        form(held(f, tiler)),
        _link_cycles(f, tiler),
    )


def _chosen(f: Gemm, tiler: Tiler) -> Cut:
    """The cut of one contraction, worked out."""
    cuts = [
        cut
        for columns in _widths(f, tiler)
        for rows in _heights(f, tiler, columns)
        for cut in _cuts(f, tiler, rows, columns)
    ]
    least = min(cut.score for cut in cuts)
    allowed = max(least + least // 20, _link_cycles(f, tiler))
    if f.band and f.node.output in tiler.layout.following:
        allowed = max(allowed, least + least // FOLLOWING)
    return _earliest(cuts, allowed)


def _earliest(cuts: list[Cut], allowed: int) -> Cut:
    """The cut that finishes rows earliest, of those with such a score."""
    return min(
        (cut for cut in cuts if cut.score <= allowed), key=lambda c: (c.run * c.share * c.rows, c.score, -c.columns)
    )


def _widths(f: Gemm, tiler: Tiler) -> list[int]:
    """Columns of a weight tile: all that fit, a share for every plane, one line, or as many as make all tiles alike."""
    if f.blocks:
        return [f.n]
    step, most = f.column_step, min(f.tile[1], f.n)
    widest = most if most == f.n or step > most else most // step * step
    return [widest] if _kept(f, tiler) else _shares(f, tiler, widest)


def _shares(f: Gemm, tiler: Tiler, widest: int) -> list[int]:
    """The widest tile and narrower ones, of which planes have a share each."""
    step, most = f.column_step, min(f.tile[1], f.n)
    line = tiler.target.line_bytes // tiler.graph.types[f.node.output].dtype.size
    found = {widest}
    for wanted in (-(-f.n // tiler.target.matrix.instances), line):
        for lines in (wanted // step, -(-wanted // step)):
            if step <= lines * step < most:
                found.add(lines * step)
    if f.n > most and _few(f, tiler):  # as wide as each other: their tiles may meet in a line
        found.add(-(-f.n // -(-f.n // most)))
    if f.n > most and f.m <= EVEN[1] and tiler.is_constant(f.node.operands[f.roles.stationary].value):
        planes = (
            tiler.target.matrix.instances
        )  # so few rows wait for loads, of which each plane then has the same share
        found.add(-(-f.n // (planes * -(-f.n // (planes * most)))))
    return sorted(found)


def _few(f: Gemm, tiler: Tiler) -> bool:
    """Whether whole columns and long rows would leave planes idle."""
    chains = f.batch * -(-f.n // f.tile[1]) * -(-f.m // EVEN[1])
    return not f.blocks and chains < tiler.target.matrix.instances


def _heights(f: Gemm, tiler: Tiler, columns: int) -> list[int]:
    """Rows of one MATMUL: whole lines of the result, unless every column tile has lines of its own anyway."""
    most = min(f.m, tiler.target.matrix.accumulator_rows)
    found = set()
    share = -(-f.m // tiler.target.matrix.instances)  # of every plane
    even = share <= EVEN[1] and (share > EVEN[0] or f.shared >= 0)
    short = [SHORT] if f.band and f.node.output in tiler.layout.following else []
    slotted = SLOTTED if tiler.slotted and f.batch * -(-f.n // columns) <= MANY else ()
    for rows in (*short, *slotted, *ROWS, *([-(-share // f.row_step) * f.row_step] if even else [])):
        aligned = max(f.row_step, round(rows / f.row_step) * f.row_step)
        found.add(min(most, aligned))
    if _few(f, tiler):
        found.add(min(most, -(-f.m // (HALVES * f.row_step)) * f.row_step))
    if share >= EVEN[0] and _idle(f, columns, tiler):
        found.add(min(most, share))
    return sorted(found)


def _idle(f: Gemm, columns: int, tiler: Tiler) -> bool:
    """Whether planes would be idle if pieces of rows that may meet in lines ended on lines."""
    chains = f.batch * -(-f.n // columns) * -(-f.m // f.row_step)
    return f.stacked and chains < tiler.target.matrix.instances


def _cuts(f: Gemm, tiler: Tiler, rows: int, columns: int) -> list[Cut]:
    """Cuts of one size of tile: weights changed after every MATMUL, or after some, or never."""
    target = tiler.target
    depth = f.tile[0]
    middle, last = (
        _beats(_matmul(f, 0, (0, rows), (0, min(depth, f.k)), (0, min(columns, f.n)), flags), tiler)
        for flags in (_FIRST, _FIRST | _LAST)
    )
    k_tiles, n_tiles = -(-f.k // depth), -(-f.n // columns)
    load = rest = 0
    if not _kept(f, tiler):
        load = load_beats(f, min(depth, f.k), columns, tiler)
        rest = load_beats(f, f.k - (k_tiles - 1) * depth, columns, tiler)  # beside the product before the last
    cuts = []
    for share in range(1, target.matrix.instances + 1):
        part = -(-f.m // (rows * share))  # MATMULs of one plane for one weight tile
        longest = min(part, max(1, min(CHAIN_ROWS, target.matrix.accumulator_rows) // rows))
        for run in sorted({1, longest}):
            chains = f.batch * n_tiles * share * -(-part // run)
            work = min(run * rows, f.m) / rows
            chain = work * last + load / BESIDE if tiler.slotted else max(load, work * last)
            if k_tiles > 1:
                chain += (k_tiles - 2) * max(load, work * middle) + max(rest, work * middle)
            cycles = int(-(-chains // target.matrix.instances) * chain) + load
            mean = int(chains * chain) // target.matrix.instances
            cuts.append(Cut(rows, columns, share, run, cycles, cycles + mean))
    return cuts


def _kept(f: Gemm, tiler: Tiler) -> bool:
    """Whether planes keep a constant from one product of few rows to the next, as steps of a sequence follow each other."""
    target, fixed = tiler.target, f.node.operands[f.roles.stationary].value
    if tiler.used[fixed] < STEPS or f.m > FEW or not (tiler.low_latency and tiler.is_constant(fixed)):
        return False
    tiles = -(-f.k // f.tile[0]) * -(-f.n // f.tile[1])
    ports = target.weights.bytes_per_cycle * target.weights.instances
    burden = tiler.graph.types[fixed].bytes >= STREAMED * ports
    return burden and tiles * KEPT <= target.matrix.instances * target.matrix.slots


def _beats(i: Instruction, tiler: Tiler) -> int:
    return tiler.space.timings.of(i).beats


def _link_cycles(f: Gemm, tiler: Tiler) -> int:
    """Cycles for which the links keep this contraction waiting anyway: its operand comes in, or its result goes out."""
    graph = tiler.graph
    moving = f.node.operands[1 - f.roles.stationary].value
    came = [graph.types[v].bytes for v in tiler.layout.roots[moving] if v in graph.inputs]
    went = [graph.types[v].bytes for v in graph.outputs if f.node.output in tiler.layout.roots.get(v, ())]
    return max(sum(came) // tiler.target.link_in.bytes_per_cycle, sum(went) // tiler.target.link_out.bytes_per_cycle)


def instructions(f: Gemm, cut: Cut) -> int:
    """How many instructions a cut makes."""
    passes = f.batch * -(-f.n // cut.columns) * -(-f.k // f.tile[0])
    products = -(-f.m // cut.rows)
    return passes * (products + -(-products // cut.run))


def emit(f: Gemm, cut: Cut, tiler: Tiler) -> None:
    """Make the tiles: per chain of K tiles a LOADW and its MATMULs."""
    tiles = weights(f, cut.columns, tiler)
    row_tiles = pieces(f.m, cut.rows)
    k_tiles = pieces(f.k, f.tile[0])
    step = cut.share * cut.run
    short = _left_over(f, cut, tiler)
    made = _Made(f, tiler)
    for batch in range(f.batch):
        starts = range(0, len(row_tiles), step)
        for at in starts if cut.rows % f.row_step == 0 else starts[::-1]:
            block = row_tiles[at : at + step]
            for number, columns in enumerate(column_tiles(f, cut.columns, tiler)):
                parts, share = (pieces(f.m, short[1]), 1) if number >= short[0] else (block, cut.share)
                for some in _dealt(parts, share, number >= short[0]):
                    _chain(made, batch, some, k_tiles, columns, tiles[number])


def _dealt(rows: list[pl.Range], share: int, apart: bool) -> list[list[pl.Range]]:
    """Rows of each chain: as many chains as planes share them, or each piece its own."""
    share = len(rows) if apart else share
    return [rows[at::share] for at in range(min(share, len(rows)))]


def _left_over(f: Gemm, cut: Cut, tiler: Tiler) -> tuple[int, int]:
    """From which column tile on rows are cut so that every plane gets some of them, and how many rows then make a chain.

    Column tiles that are whole in one chain go round the planes; of those in the last round, fewer than there are
    planes, each is for several planes. That takes constant weights, which are there in time.
    """
    planes, whole = tiler.target.matrix.instances, -(-f.n // cut.columns)
    rest = whole % planes
    none = (whole, f.m)
    if f.batch > 1 or f.blocks or cut.rows < f.m or whole < planes or not 0 < rest <= planes // 2:
        return none
    if not tiler.is_constant(f.node.operands[f.roles.stationary].value):
        return none
    rows = -(-f.m // (planes // rest) // f.row_step) * f.row_step
    if not FEW <= rows < f.m:
        return none
    most = min(cut.columns, f.n)
    chains = []
    for count in (f.m, rows):
        middle, last = (
            _beats(_matmul(f, 0, (0, count), (0, min(f.tile[0], f.k)), (0, most), flags), tiler)
            for flags in (_FIRST, _FIRST | _LAST)
        )
        work = middle * (-(-f.k // f.tile[0]) - 1) + last
        chains.append(max(work, load_beats(f, f.k, most, tiler)))
    return (whole - rest, rows) if chains[1] < chains[0] else none


class _Made:
    """What chains of one contraction have in common: names of what they read, and by weight tile its LOADW and a product."""

    def __init__(self, f: Gemm, tiler: Tiler) -> None:
        node = f.node
        self.f, self.tiler = f, tiler
        self.values = {"a": node.operands[1 - f.roles.stationary].value}
        for field, i in zip("bcd", extras(node, tiler), strict=False):
            self.values[field] = node.operands[i].value
        self._known: dict[tuple[int, ...], tuple[Tile, Instruction]] = {}

    def pass_(self, where: tuple[int, ...], columns: pl.Range, flags: int) -> tuple[Tile, Instruction]:
        """A LOADW of the weight tile at (stream, batch, K start and count, columns within the stream), and a product of its
        that is given its rows."""
        found = self._known.get((*where, *columns, flags))
        if found is None:
            found = self._known[(*where, *columns, flags)] = self._pass(where, columns, flags)
        return found

    def _pass(self, where: tuple[int, ...], columns: pl.Range, flags: int) -> tuple[Tile, Instruction]:
        f, tiler = self.f, self.tiler
        stream, batch, k, depth, column, count = where
        on = cells(tiler.space.pool.streams[stream - 1], (k, depth), (column, count)) if f.band else 0
        load = Instruction(
            _LOADW,
            0,
            0,
            0,
            0,
            tiler.source,
            0,
            stream,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            f.blocks,
            batch,
            k,
            depth,
            column,
            count,
            f.run,
            0,
            on,
        )
        product = _matmul(f, batch, (0, 1), (k, depth), columns, flags, tiler.source, on)
        if tiler.space.buffers[tiler.space.source(stream).buffer].kind == "constant":
            return resident(tiler.space, load), product
        return make(tiler.space, load, {"a": f.node.operands[f.roles.stationary].value}), product


def _chain(
    made: _Made,
    batch: int,
    rows: list[pl.Range],
    k_tiles: list[pl.Range],
    columns: pl.Range,
    tile: tuple[int, int],
) -> None:
    tiler = made.tiler
    stream, start = tile
    steps: list[Step] = []
    for number, k in enumerate(k_tiles):
        where = (stream, batch, k[0], k[1], columns[0] - start, columns[1])
        flags = (_FIRST if number == 0 else 0) | (_LAST if number == len(k_tiles) - 1 else 0)
        load, product = made.pass_(where, columns, flags)
        step = Step(len(tiler.tiles), where)
        tiler.tiles.append(load.on(load.instruction))
        row = 0
        output = made.f.node.output if flags & _LAST else ""
        for first, count in rows:
            step.uses.append(len(tiler.tiles))
            tiler.tiles.append(make(tiler.space, product.rows(row, first, count), made.values, output))
            row += count if len(k_tiles) > 1 else 0  # a sum that is complete at once needs no rows of its own
        steps.append(step)
    tiler.chains.append(steps)


def _matmul(
    f: Gemm, batch: int, rows: pl.Range, k: pl.Range, columns: pl.Range, flags: int, source: int = 0, on: int = 0
) -> Instruction:
    """A product; the one that ends a sum has its epilogue, and the place where the result goes."""
    b, c, d, out, post = (*[*f.extra, 0, 0, 0][:3], f.out, f.post) if flags & _LAST else (0, 0, 0, 0, 0)
    return Instruction(
        _MATMUL,
        0,
        0,
        flags,
        0,
        source,
        0,
        f.a,
        b,
        c,
        d,
        out,
        0,
        post,
        0,
        0,
        0,
        f.blocks,
        batch,
        *rows,
        *k,
        columns[0],
        columns[1] * max(1, f.blocks),
        on,
    )
