"""Walks over a graph in order and makes the tiles of every node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

from compiler.costs import fits_planes, input_cycles, link_cycles, plane_cycles, unit_demand
from compiler.ir import Access, Compute, Gather, Graph, Join, Merge, Node, Reshape, Scatter, Sort, State, View, reads_of
from compiler.passes.views import groups
from compiler.targets import Target
from compiler.tiling import (
    across,
    contraction,
    gemm,
    layout,
    lookup,
    loop_nests,
    relayout,
    sorting,
    toeplitz,
    transfer,
    uses,
    vector,
)
from compiler.tiling import place as pl
from compiler.tiling.budget import Tiles, TooLong, room
from compiler.tiling.cut import Cut
from compiler.tiling.loop_collapsing import collapsed
from compiler.tiling.readers import dense_order
from compiler.tiling.space import Space
from compiler.tiling.tiler import Tiler

Way = list[tuple[gemm.Gemm, Cut]]  # products that together are a contraction, and how each is cut
PER_CYCLE = 4  # instructions that weigh as much as a cycle where forms of a contraction are compared


def lower(
    graph: Graph, target: Target, *, following: bool = True, slotted: bool = False, sparing: bool = False
) -> tuple[Tiler, list[str], list[Node | None]]:
    """Tiles of a legal graph, and the table of source operations: names and the nodes behind them (None: a transfer).
    ``following``: planes may lose cycles in order to follow an image that comes in. ``slotted``: only how long they are
    busy counts. ``sparing``: memory is short, so no copy is made for the sake of cycles alone."""
    places = layout.assign(graph, target, following=following)
    space = Space(target)
    for name, size in places.buffers.items():
        space.buffer(name, "state" if name in places.states else "arena", size)
    spare, coming = _spare(graph, places, target), input_cycles(graph, target)
    tiles = Tiles(room(graph))
    once = uses.stored_once(graph, target, short=sparing)
    tiler = Tiler(
        graph,
        target,
        places,
        space,
        tiles,
        sparing=sparing,
        once=once,
        low_latency=following,
        slotted=slotted,
        spare=spare,
        coming=coming,
    )
    names: list[str] = []
    nodes: list[Node | None] = []

    def enter(name: str, node: Node | None) -> None:
        tiler.source, tiler.guard = len(names), node.guard if node else None
        names.append(name)
        nodes.append(node)

    for name in graph.inputs:
        enter(f"input {name}", None)
        transfer.receive(name, tiler)
    for node in graph.nodes:
        enter(node.name, node)
        try:
            _node(node, tiler, enter)
        except TooLong as long:
            raise TooLong(long.message, node=node.name) from None
    updates = []
    for state in graph.states:
        enter(f"state {state.input}", None)
        updates.append((tiler.source, _aside(state, tiler), state.input))
    for tiler.source, update, name in updates:
        _store(update, name, tiler)
    for name in graph.outputs:
        enter(f"output {name}", None)
        transfer.send(name, name, tiler)
    return tiler, names, nodes


def _spare(graph: Graph, places: layout.Layout, target: Target) -> int:
    """Cycles that a vector unit has left while the planes or the links work: what it does in these costs no interval."""

    def on_planes(node: Compute) -> int:
        return plane_cycles(node, places.dataflows[node.output].stationary, target, shared=True)

    planes, vector = unit_demand(graph, target, on_planes)
    least = max(
        link_cycles(graph, target), planes // max(1, target.matrix.instances), _chain(graph, target) // target.copies
    )
    return max(0, least - vector // max(1, target.vector.instances))


def _chain(graph: Graph, target: Target) -> int:
    """Latencies on the longest way through the graph: inferences that overlap, of which memory holds so many, begin no closer
    than their part of it."""
    ends: dict[str, int] = {}
    for node in graph.nodes:
        own = 0
        if isinstance(node, Compute):
            own = (target.matrix if fits_planes(node, graph, target) else target.vector).latency
        ends[node.output] = own + max((ends.get(value, 0) for value in reads_of(node)), default=0)
    return max(ends.values(), default=0)


def _node(node: Node, tiler: Tiler, enter: Callable[[str, Node | None], None]) -> None:
    if isinstance(node, Merge):
        _merge(node, tiler, enter)
    elif tiler.graph.types[node.output].elements:
        _made(node, tiler)


def _made(node: Node, tiler: Tiler) -> None:
    if isinstance(node, Compute):
        if fits_planes(node, tiler.graph, tiler.target):
            _contract(node, tiler)
        else:
            across.emit(node, tiler)
    elif isinstance(node, Gather):
        lookup.gather(node, tiler)
    elif isinstance(node, Scatter):
        sorting.scatter(node, tiler)
    elif isinstance(node, Sort):
        sorting.sort(node, tiler)
    elif isinstance(node, Join):
        _join(node, tiler)
    elif isinstance(node, View) and node.output in tiler.layout.copies:
        operand = node.operand
        source, home = tiler.place(operand.value), tiler.place(node.output)
        vector.copy(source, home, operand.access, operand.fill, (operand.value, node.output), tiler)
    elif isinstance(node, Reshape) and node.output in tiler.layout.copies:
        _reshape(node, tiler)


def _contract(node: Compute, tiler: Tiler) -> None:
    """On the planes, as it stands or as blocks that share passes, perhaps after a copy of the moving operand in a better
    order; or on the vector unit if that is faster."""
    moving = 1 - tiler.layout.dataflows[node.output].stationary
    f = gemm.gemm(loop_nests.plain(node), tiler)
    ways = min(_ways(node, f, tiler), key=_price)
    least = sum(cut.cycles for _, cut in ways)
    home = _relaid_home(node, f, tiler)
    if home is not None:
        better = contraction.choose(gemm.gemm(loop_nests.plain(node), tiler, home[1]), tiler)
        copied = better.cycles + relayout.cycles(node.operands[moving].value, *home, tiler)
        home, least = (home, copied) if copied < least else (None, least)
    if _on_vector_unit(node, tiler, least):
        vector.emit(node, tiler)
        return
    if home is not None:
        name = relayout.stored(node.operands[moving].value, home[0], home[1], tiler)
        f = gemm.gemm(loop_nests.plain(_renamed(node, moving, name)), tiler)
        ways = [(f, contraction.choose(f, tiler))]
    tiler.tiles.expect(sum(contraction.instructions(way, chosen) for way, chosen in ways))
    for way, chosen in ways:
        contraction.emit(way, chosen, tiler)


def _ways(node: Compute, f: gemm.Gemm, tiler: Tiler) -> list[Way]:
    """The contraction as it stands (``f``), and every other way to walk its loops."""
    stationary = f.roles.stationary
    others = [
        loop_nests.packed_batch(loop_nests.plain(node), stationary, f.tile),
        loop_nests.packed_columns(node, stationary, tiler.target),
        *_left_over(node, f, tiler),
        *_packed_rows(node, f.tile, tiler),
        *toeplitz.bands(node, tiler.graph, tiler.target),
    ]
    made = [[f], *([gemm.gemm(w, tiler) for w in together] for together in others if together)]
    return [[(g, contraction.choose(g, tiler)) for g in way] for way in made]


def _on_vector_unit(node: Compute, tiler: Tiler, cycles: int) -> bool:
    """Whether a contraction of so many cycles on the planes goes to the vector unit instead; all its strips do what the first
    does, because bounds are those of programs that have every contraction on one kind of unit."""
    whole = node.part.whole if node.part else node.output
    if whole not in tiler.elsewhere:
        tiler.elsewhere[whole] = vector.quicker(node, tiler, cycles)
    return tiler.elsewhere[whole]


def _left_over(node: Compute, f: gemm.Gemm, tiler: Tiler) -> list[list[loop_nests.LoopNest]]:
    """Columns left over behind full planes with a form of their own, at the end of a row of pixels or anywhere."""
    stationary = f.roles.stationary
    over = collapsed(node, f.roles.columns, tiler.layout.places) if f.n > f.tile[1] else None
    found = []
    for nest in (loop_nests.plain(node), *([over] if over else [])):
        found.append(loop_nests.packed_remainder(nest, stationary, f.tile))
        found.append(loop_nests.swapped_remainder(nest, stationary, tiler.target))
    return found


def _packed_rows(node: Compute, tile: tuple[int, int], tiler: Tiler) -> list[list[loop_nests.LoopNest]]:
    """Neighbouring rows as blocks by the same constant weights, which are there before the rows are."""
    constant = next((n for n in (1, 0) if tiler.is_constant(node.operands[n].value)), -1)
    return [[nest] for nest in loop_nests.packed_rows(node, constant, tile)] if constant >= 0 else []


def _price(ways: Way) -> int:
    """Cycles of the planes, and the instructions that a program would have to keep. What makes one way uneven among the planes
    is filled by the others."""
    mean = sum(cut.score - cut.cycles for _, cut in ways)
    uneven = max(2 * cut.cycles - cut.score for _, cut in ways)
    return mean + uneven + sum(contraction.instructions(f, cut) for f, cut in ways) // PER_CYCLE


def _relaid_home(node: Compute, f: gemm.Gemm, tiler: Tiler) -> tuple[tuple[int, ...], pl.Place] | None:
    """Order and place of a copy of the moving operand that has the reduced loops innermost; None where it has already."""
    value = node.operands[1 - f.roles.stationary].value
    order = _inner_last(node, f, tiler)
    if order is None or tiler.is_constant(value):
        return None
    return order, relayout.drafted(value, order, tiler)


def _renamed(node: Compute, operand: int, value: str) -> Compute:
    operands = list(node.operands)
    operands[operand] = replace(operands[operand], value=value)
    return replace(node, operands=tuple(operands))


def _inner_last(node: Compute, f: gemm.Gemm, tiler: Tiler) -> tuple[int, ...] | None:
    """Dimension order of the moving operand with the innermost reduction loops innermost; None if it is so already."""
    operand = node.operands[1 - f.roles.stationary]
    rank = {loop: at for at, loop in enumerate([*f.roles.batch, *f.roles.rows])}
    keys = []
    for j, row in enumerate(operand.access.matrix):
        outer = min((rank[i] for i, c in enumerate(row) if c and i in rank), default=None)
        inner = max((i for i, c in enumerate(row) if c and i in f.roles.inner), default=-1)
        keys.append((outer is None, outer if outer is not None else inner, j))
    order = tuple(sorted(range(len(keys)), key=lambda j: keys[j]))
    return None if order == dense_order(tiler.place(operand.value)) else order


def _reshape(node: Reshape, tiler: Tiler) -> None:
    source, home = tiler.place(node.input), tiler.place(node.output)
    shaped = home.reshaped(source.shape)
    assert shaped is not None, "the layout says so"
    whole = tiler.layout.needed_whole.get(node.output, frozenset())
    inner = frozenset(j for left, right in groups(home.shape, source.shape) if whole.intersection(left) for j in right)
    access = Access.identity(len(source.shape))
    vector.copy(source, shaped, access, None, (node.input, node.output), tiler, inner)


def _join(node: Join, tiler: Tiler) -> None:
    """Copies of the parts that are not already where they belong."""
    home = tiler.place(node.output)
    at = 0
    for part in node.parts:
        t = tiler.graph.types[part]
        if tiler.layout.joined.get(part) != node.output and t.elements:
            offset = home.offset + at * home.strides[node.axis]
            target = pl.Place(home.buffer, t.dtype, t.shape, offset, home.strides)
            vector.copy(tiler.place(part), target, Access.identity(len(t.shape)), None, (part, node.output), tiler)
        at += t.shape[node.axis]


def _merge(node: Merge, tiler: Tiler, enter: Callable[[str, Node | None], None]) -> None:
    """Copies, each under its guard, of the parts that are not written where they belong; every one is a row of its own."""
    home = tiler.place(node.output)
    for number, (guard, part) in enumerate(node.parts):
        if tiler.layout.joined.get(part) != node.output and tiler.graph.types[part].elements:
            enter(f"{node.name}.{number}", replace(node, guard=guard or node.guard))
            access = Access.identity(len(home.shape))
            vector.copy(tiler.place(part), home, access, None, (part, node.output), tiler)


def _aside(state: State, tiler: Tiler) -> str:
    """The state's next value; a copy of it where it is the old value of a state, which may be overwritten before."""
    update, home = state.update, tiler.place(state.input)
    if tiler.place(update) == home or not any(r in tiler.layout.states for r in tiler.layout.roots[update]):
        return update
    name = tiler.fresh(f"{state.input}~old")
    tiler.space.buffer(name, "arena", tiler.graph.types[update].bytes)
    tiler.layout.places[name] = replace(home, buffer=name, offset=0)
    tiler.layout.roots[name] = (name,)
    copied = tiler.layout.places[name]
    vector.copy(tiler.place(update), copied, Access.identity(len(home.shape)), None, (update, name), tiler)
    return name


def _store(update: str, state: str, tiler: Tiler) -> None:
    """Copy a state's next value into its place once everybody has read the old one."""
    source, home = tiler.place(update), tiler.place(state)
    if source == home or prod(home.shape) == 0:
        return
    readers = [n for n, t in enumerate(tiler.tiles) if any(state in tiler.layout.roots[v.value] for v in t.inputs)]
    first = len(tiler.tiles)
    following = tiler.fresh(f"{state}~next")
    vector.copy(source, home, Access.identity(len(home.shape)), None, (update, following), tiler)
    tiler.layout.roots[following] = (following,)
    for tile in tiler.tiles[first:]:
        tile.after = list(readers)
