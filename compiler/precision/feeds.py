"""Seeded inputs for models that come without calibration data: noise for floats, numbers that fit for whole ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from compiler.ir.graph import Compute, Gather, Graph, Reshape, Scatter, View, operands_of
from compiler.ir.types import TensorType

Array = np.ndarray[Any, Any]
WORK = 1 << 32  # operations that calibrating on seeded feeds may take, about; at least one feed
MOST = 8
SEED = 20260101
PATCH = 8  # elements of a patch of one brightness along either side


def seeded(graph: Graph, count: int | None = None) -> list[dict[str, Array]]:
    """``count`` feeds (default: as many as a counted budget of operations allows), the same on every machine."""
    count = affordable(graph) if count is None else count
    limits = index_limits(graph)
    return [_feed(graph, limits, n) for n in range(count)]


def affordable(graph: Graph) -> int:
    """Feeds for which a counted budget of operations suffices: at least one."""
    work = sum(n.operations for n in graph.nodes if isinstance(n, Compute))
    return max(1, min(MOST, WORK // max(work, 1)))


def _feed(graph: Graph, limits: dict[str, int], number: int) -> dict[str, Array]:
    rng = np.random.default_rng([SEED, number])
    return {name: _values(graph.types[name], limits.get(name), rng, number) for name in graph.inputs}


def _values(kind: TensorType, limit: int | None, rng: np.random.Generator, number: int) -> Array:
    """Floats, or whole numbers below a limit with a tail that repeats one of them, as padding does.

    Pictures come normalised, so they are of unit size; how loud signals and tables are nobody knows, so they differ from
    feed to feed.
    """
    if kind.dtype.is_float:
        size = 1.0 if len(kind.shape) > 3 else 0.25 ** (number % 3)
        return np.asarray(_floats(kind.shape, rng) * size, kind.dtype.numpy)
    if limit is None:
        return np.ones(kind.shape, kind.dtype.numpy)
    ids = rng.integers(0, max(limit, 1), kind.shape)
    if ids.ndim and ids.shape[-1] > 1:
        ids[..., ids.shape[-1] * 3 // 4 :] = ids.reshape(-1)[0]
    return ids.astype(kind.dtype.numpy)


def _floats(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Nearly normal noise (sums of twelve uniform numbers, so that only additions make it).

    Pictures are noise on one side and patches of one brightness on the other: neighbours that agree drive activations
    further than noise does.
    """
    total = np.zeros(shape)
    for _ in range(12):
        total += rng.random(shape)
    x = total - 6.0
    if len(shape) < 4 or min(shape[-2:]) < 2 * PATCH:
        return x
    height, width = shape[-2:]
    coarse = rng.random((shape[0], 1, -(-height // PATCH), -(-width // PATCH))) * 4.0 - 2.0
    patches = coarse.repeat(PATCH, axis=2).repeat(PATCH, axis=3)[..., :height, :width]
    patches = np.broadcast_to(patches.reshape(shape[0], *[1] * (len(shape) - 3), height, width), shape)
    return np.concatenate((x[..., : width // 2], patches[..., width // 2 :]), axis=-1)


def index_limits(graph: Graph) -> dict[str, int]:
    """Inputs that gathers and scatters use as places: the number of places that the smallest of their tables has."""
    made = {node.output: node for node in graph.nodes}
    found: dict[str, int] = {}
    for node in graph.nodes:
        if not isinstance(node, Gather | Scatter):
            continue
        table = graph.types[node.data.value if isinstance(node, Gather) else node.data].shape
        for j, index in enumerate(node.indices):
            if index is None:
                continue
            name = index.value
            while name in made and (before := _passed_on(made[name])) is not None:
                name = before
            if name in graph.inputs:
                found[name] = min(found.get(name, table[j]), table[j])
    return found


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
