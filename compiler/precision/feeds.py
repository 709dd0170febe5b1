"""Seeded inputs for models that come without calibration data: noise for floats, numbers that fit for whole ones.

Some give ranges, others (``unseen``) measure what is lost with these ranges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from compiler.ir import Compute, Gather, Graph, Reshape, Scatter, Step, TensorType, View, operands_of, reads_of
from compiler.precision.inputs import normals
from compiler.precision.plan import is_float_contraction

Array = np.ndarray[Any, Any]
WORK = 1 << 32  # operations that calibrating on seeded feeds may take, about; at least one feed
MOST = 8
SAMPLES = 512  # elements of unit size from which a range is taken, about, where feeds cost little: few hardly reach far
MORE = 56  # feeds beyond MOST that small vectors get at most
SHARE = 4  # feeds that give ranges for each one that measures
NODE = 1 << 20  # operations that take as long as the handling of one node
SEED = 20260101
UNSEEN = SEED + 1  # of the feeds that measure
WIDE = 3.0  # where uniform numbers end
PATCH = 8  # elements of a patch of one brightness along either side
CELL = 14, 9  # elements of one sign of strokes, with its margin
SEGMENTS = (  # where the strokes of a sign lie: rows from, to, columns from, to
    (1, 3, 1, 7),
    (6, 8, 1, 7),
    (11, 13, 1, 7),
    (1, 7, 1, 3),
    (1, 7, 5, 7),
    (7, 13, 1, 3),
    (7, 13, 5, 7),
)


def seeded(graph: Graph, count: int | None = None) -> list[dict[str, Array]]:
    """``count`` feeds that give ranges (default: as many as a counted budget of operations allows and small vectors need),
    the same on every machine. What small vectors need comes first: the others are measured with the ranges that it gave."""
    numbers = [*range(MOST, MOST + _more(graph)), *range(affordable(graph))] if count is None else range(count)
    return _feeds(graph, SEED, numbers)


def unseen(graph: Graph) -> list[dict[str, Array]]:
    """Other feeds, to measure with: at least one, of at least the size of those that give ranges."""
    return _feeds(graph, UNSEEN, range(max(1, (affordable(graph) + _more(graph)) // SHARE)))


def affordable(graph: Graph) -> int:
    """Feeds for which a counted budget of operations suffices: at least one."""
    return max(1, min(MOST, WORK // max(_work(graph), 1)))


def _work(graph: Graph) -> int:
    return sum(n.operations for n in graph.nodes if isinstance(n, Compute))


def _more(graph: Graph) -> int:
    """Feeds that small vectors need beyond the affordable ones: the largest of a few numbers says little of what comes."""
    floats = [kind for kind in (graph.types[name] for name in graph.inputs) if kind.dtype.is_float and kind.elements]
    if not floats or any(has_sides(kind.shape) for kind in floats):
        return 0
    sizes = [graph.types[value].elements for value in multiplied(graph)]
    needed = -(-SAMPLES // max(1, min(sizes, default=SAMPLES))) - MOST
    return max(0, min(needed, MORE, WORK // 4 // (_work(graph) + NODE * len(graph.nodes))))


def multiplied(graph: Graph) -> list[str]:
    """Values that contractions multiply by constants, each once."""
    found = [reads_of(n)[:2] for n in graph.nodes if isinstance(n, Compute) and is_float_contraction(n)]
    return list(dict.fromkeys(v for pair in found for v in pair if v not in graph.constants))


def _feeds(graph: Graph, seed: int, numbers: Sequence[int]) -> list[dict[str, Array]]:
    limits, known = index_limits(graph), normals(graph)
    feeds = []
    for number in numbers:
        rng = np.random.default_rng([seed, number])
        loud = number >= MOST or (seed == UNSEEN and number < 2)
        feed = {}
        for name in graph.inputs:
            kind, normal = graph.types[name], None if name in limits else known.get(name)
            if normal is not None:
                feed[name] = normal.input(_sized(normal.shape, rng, number, loud), kind)
            elif kind.dtype.is_float:
                feed[name] = np.asarray(_sized(kind.shape, rng, number, loud), kind.dtype.numpy)
            else:
                feed[name] = _whole(kind, limits.get(name), rng, number)
        feeds.append(feed)
    return feeds


def _sized(shape: tuple[int, ...], rng: np.random.Generator, number: int, loud: bool) -> Array:
    """Pictures come normalised, so they are of unit size; how loud signals and tables are nobody knows, so they differ from
    feed to feed. ``loud`` ones, which measure or which small vectors have more, are of unit size or wide by turns."""
    if loud and not has_sides(shape):
        return _noise(shape, rng) if number % 2 == 0 else (rng.random(shape) * 2.0 - 1.0) * WIDE
    if len(shape) > 3:
        return _floats(shape, rng, number)
    return _floats(shape, rng, number) * 0.25 ** ((number // 3 + number) % 3)


def _whole(kind: TensorType, limit: int | None, rng: np.random.Generator, number: int) -> Array:
    """Places below a limit, or (where nothing is known of whole numbers) ones as a mask has them."""
    tail = kind.shape[-1] * 3 // 4 if kind.shape and kind.shape[-1] > 1 else None
    if limit is None:
        ones = np.ones(kind.shape, kind.dtype.numpy)
        if tail is not None and number % 2:
            ones[..., tail:] = 0
        return ones
    ids = _places(kind.shape, max(limit, 1), rng, number)
    if tail is not None:
        ids[..., tail:] = ids.reshape(-1)[0]
    return ids.astype(kind.dtype.numpy)


def _places(shape: tuple[int, ...], limit: int, rng: np.random.Generator, number: int) -> Array:
    """Whole numbers below a limit: all alike likely, a few of them again and again, or in runs."""
    how = number % 3
    if how == 1:
        few = rng.integers(0, limit, 1 + min(limit, 40))
        ids = few[rng.integers(0, len(few), shape)]
    else:
        ids = rng.integers(0, limit, shape)
    if how == 2 and shape:
        ids = ids.repeat(3, axis=-1)[..., : shape[-1]]
    return np.asarray(ids)


def _floats(shape: tuple[int, ...], rng: np.random.Generator, number: int) -> Array:
    """Nearly normal noise in shapes.

    Signals and tables are noise, smooth, or mostly quiet with a few loud places: the last are what codes serve worst.
    Pictures are noise, patches of one brightness, and strokes on a ground, side by side: neighbours that agree drive
    activations further than noise does, and what was trained on shapes answers to shapes. The noise is half as strong,
    since no picture has all of its contrast between neighbours.
    """
    x = _noise(shape, rng)
    if len(shape) < 4:
        return (x, _smooth(x), x * x * x * (1.0 / 3.0))[number % 3]
    if not is_picture(shape):
        return x
    height, width = shape[-2:]
    coarse = rng.random((shape[0], 1, -(-height // PATCH), -(-width // PATCH))) * 4.0 - 2.0
    patches = coarse.repeat(PATCH, axis=2).repeat(PATCH, axis=3)[..., :height, :width]
    patches = np.broadcast_to(patches.reshape(shape[0], *[1] * (len(shape) - 3), height, width), shape)
    strokes = np.broadcast_to(_strokes(height, width, rng, 2 - number % 2), shape)
    first, second = width // 4, width // 2
    return np.concatenate((x[..., :first] * 0.5, patches[..., first:second], strokes[..., second:]), axis=-1)


def _noise(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Nearly normal noise: sums of twelve uniform numbers, so that only additions and products make it."""
    total = np.zeros(shape)
    for _ in range(12):
        total += rng.random(shape)
    return np.asarray(total - 6.0)


def _strokes(height: int, width: int, rng: np.random.Generator, size: int) -> Array:
    """Signs of up to seven dark strokes on a light ground, in rows and columns, as print and many edges look."""
    rows, columns = (-(-n // (size * step)) for n, step in ((height, CELL[0]), (width, CELL[1])))
    shown = rng.integers(0, 2, (rows, columns, len(SEGMENTS))).astype(bool)
    ink = np.zeros((rows, columns, *CELL), bool)
    for number, (top, bottom, left, right) in enumerate(SEGMENTS):
        ink[:, :, top:bottom, left:right] |= shown[:, :, number, None, None]
    page = ink.transpose(0, 2, 1, 3).reshape(rows * CELL[0], columns * CELL[1])
    page = page.repeat(size, axis=0).repeat(size, axis=1)[:height, :width]
    return np.where(page, -1.5, 1.5)


def has_sides(shape: tuple[int, ...]) -> bool:
    """Whether a tensor of that shape may hold pictures, be they small."""
    return len(shape) >= 4 and min(shape[-2:]) > 1


def is_picture(shape: tuple[int, ...]) -> bool:
    """Whether a tensor of that shape has room for patches."""
    return len(shape) >= 4 and min(shape[-2:]) >= 2 * PATCH


def _smooth(x: Array) -> Array:
    """Neighbours along the last axis that agree: sums of sixteen, of the same power."""
    for step in (1, 2, 4, 8):
        if x.ndim and x.shape[-1] > step:
            x = (x + np.roll(x, step, axis=-1)) * 0.7071067811865476
    return x


def index_limits(graph: Graph) -> dict[str, int]:
    """Inputs that gathers and scatters use as places, or that are compared with counted-up constants (one of many classes):
    the number of places that the smallest of their tables has."""
    made = {node.output: node for node in graph.nodes}
    found: dict[str, int] = {}

    def limit(value: str, places: int) -> None:
        while value in made and (before := _passed_on(made[value])) is not None:
            value = before
        if value in graph.inputs and not graph.types[value].dtype.is_float:
            found[value] = min(found.get(value, places), places)

    for node in graph.nodes:
        if isinstance(node, Compute):
            for position, places in _compared(node, graph):
                limit(node.operands[position].value, places)
        elif isinstance(node, Gather | Scatter):
            table = graph.types[node.data.value if isinstance(node, Gather) else node.data].shape
            for j, index in enumerate(node.indices):
                if index is not None:
                    limit(index.value, table[j])
    return found


def _compared(node: Compute, graph: Graph) -> list[tuple[int, int]]:
    """Operands that the expression asks for equality with a loop's coordinate or with constants, and how many those are."""
    steps = node.expr.steps
    found = []
    for step in steps:
        if step.op != "eq":
            continue
        sides = [_source(steps, i) for i in step.args]
        for here, there in (sides, sides[::-1]):
            if here.op != "arg" or not isinstance(here.imm, int):
                continue
            places = node.loops[int(there.imm or 0)] if there.op == "index" else _counted(there, node, graph)
            if places > 2:  # fewer tell nothing: a mask is compared with 0 and 1
                found.append((here.imm, places))
    return found


def _source(steps: Sequence[Step], place: int) -> Step:
    """The step behind conversions."""
    while steps[place].op == "cast":
        place = steps[place].args[0]
    return steps[place]


def _counted(step: Step, node: Compute, graph: Graph) -> int:
    """One more than the largest of constants that are compared with; 0 if they are none."""
    if step.op != "arg" or not isinstance(step.imm, int):
        return 0
    array = graph.constants.get(node.operands[step.imm].value)
    return 0 if array is None or array.size < 2 or not 0 < array.max() < 2.0**31 else int(array.max()) + 1


def _passed_on(node: object) -> str | None:
    """The value that a node passes on unchanged, but for its type."""
    if isinstance(node, Reshape):
        return node.input
    if isinstance(node, View):
        return node.operand.value
    if isinstance(node, Compute) and node.reducer is None and {s.op for s in node.expr.steps} <= {"arg", "cast"}:
        return operands_of(node)[0].value
    return None


def fitting(graph: Graph, feeds: Sequence[Mapping[str, Any]] | None) -> list[Mapping[str, Any]] | None:
    """Those feeds whose shapes are this bucket's; None (seeded ones) when there is none."""
    shapes = {name: graph.types[name].shape for name in graph.inputs}
    found = [f for f in feeds or () if all(n in f and np.shape(f[n]) == shape for n, shape in shapes.items())]
    return found or None
