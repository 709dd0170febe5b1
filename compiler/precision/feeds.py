"""Seeded inputs for models that come without calibration data: noise for floats, numbers that fit for whole ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from compiler.ir.graph import Compute, Gather, Graph, Reshape, View, operands_of
from compiler.ir.types import TensorType

Array = np.ndarray[Any, Any]
WORK = 1 << 32  # operations that calibrating on seeded feeds may take, about; at least one feed
MOST = 8


def seeded(graph: Graph, count: int | None = None) -> list[dict[str, Array]]:
    """``count`` feeds (default: as many as a counted budget of operations allows), the same on every machine."""
    if count is None:
        work = sum(n.operations for n in graph.nodes if isinstance(n, Compute))
        count = max(1, min(MOST, WORK // max(work, 1)))
    limits = index_limits(graph)
    return [_feed(graph, limits, np.random.default_rng([20260101, n])) for n in range(count)]


def _feed(graph: Graph, limits: dict[str, int], rng: np.random.Generator) -> dict[str, Array]:
    return {name: _values(graph.types[name], limits.get(name), rng) for name in graph.inputs}


def _values(kind: TensorType, limit: int | None, rng: np.random.Generator) -> Array:
    """Sums of twelve uniform numbers less six (nearly normal, and made of additions alone), or whole numbers below a limit."""
    if kind.dtype.is_float:
        total = np.zeros(kind.shape)
        for _ in range(12):
            total += rng.random(kind.shape)
        return np.asarray(total - 6.0, kind.dtype.numpy)
    if limit is not None:
        return rng.integers(0, max(limit, 1), kind.shape).astype(kind.dtype.numpy)
    return np.ones(kind.shape, kind.dtype.numpy)


def index_limits(graph: Graph) -> dict[str, int]:
    """Inputs that gathers use as places: the number of places that the smallest of their tables has."""
    made = {node.output: node for node in graph.nodes}
    found: dict[str, int] = {}
    for node in graph.nodes:
        if not isinstance(node, Gather):
            continue
        for j, index in enumerate(node.indices):
            if index is None:
                continue
            name = index.value
            while name in made and (before := _passed_on(made[name])) is not None:
                name = before
            if name in graph.inputs:
                size = graph.types[node.data.value].shape[j]
                found[name] = min(found.get(name, size), size)
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
