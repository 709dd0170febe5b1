"""Calibration: the ranges of a model's values over example inputs, and how much each way of multiplying would lose.

Everything is computed by the representation's own interpreter, so ranges, and with them the bytes of a program, do not
depend on the machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from compiler.errors import ModelError
from compiler.ir import Compute, DType, Graph, Node
from compiler.ir.interpreter import InterpreterFault, evaluate_node
from compiler.precision import caches
from compiler.precision.artefact import Calibration
from compiler.precision.contraction import CodedWeights, row_dims
from compiler.precision.encoding import stored_array
from compiler.precision.error import decibels, powers
from compiler.precision.feeds import affordable, seeded, unseen
from compiler.precision.plan import (
    ROW,
    STATIC,
    Plan,
    Range,
    correctable,
    encoding,
    factors,
    has_codes,
    is_float_contraction,
)
from compiler.precision.rewrite import Conversion

Array = np.ndarray[Any, Any]
Feeds = dict[str, Array]
# What inputs may exceed the calibration's by before codes saturate. A factor of two costs one bit.
GIVEN, MADE_UP = 1.25, 2.0
ENOUGH = 8  # given feeds, from which on some only measure


@dataclass(frozen=True)
class Measure:
    """Feeds to measure with, the float32 model's outputs for them, and its variables before the first of them."""

    feeds: Sequence[Feeds]
    outputs: Sequence[Feeds]
    state: Feeds


def observe(
    graph: Graph, feeds: Sequence[Mapping[str, Any]] | None = None, coded: CodedWeights | None = None
) -> tuple[Calibration, Measure, Measure]:
    """Ranges and losses of an optimised graph over ``feeds`` (input name -> array of the model's type), or over seeded
    ones; what to choose by, which is what gave ranges; and what to measure with, which gave none: where few feeds are given
    the same. ``coded``: where codes of constant factors are kept."""
    if feeds is None:
        ranging, measuring = seeded(graph), unseen(graph)
    else:
        ranging, measuring = _parted(graph, [_checked(graph, feed, n) for n, feed in enumerate(feeds)])
    watch = _Watch(graph, GIVEN if feeds is not None else MADE_UP, coded or CodedWeights())
    measured = range(affordable(graph)) if feeds is not None else range(len(ranging))[-affordable(graph) :]
    state: Feeds = {}
    outputs = []
    for number, feed in enumerate(ranging):
        watch.measuring = number in measured
        for name in graph.inputs:
            watch.range(name, feed[name])
        outputs.append(_run(graph, feed, state, watch))
    found = Calibration(
        caches.with_variables(graph, watch.ranges), watch.loss, feeds is None, len(ranging), len(measuring)
    )
    known = Measure(ranging, outputs, {})
    if not measuring:
        return found, known, known
    before = dict(state)
    return found, known, Measure(measuring, [_run(graph, feed, state) for feed in measuring], before)


def _run(graph: Graph, feed: Feeds, state: Feeds, watch: _Watch | None = None) -> Feeds:
    try:
        return caches.step(graph, feed, state, watch)
    except InterpreterFault as fault:
        raise ModelError(f"a calibration feed cannot be run: {fault}") from fault


def _parted(graph: Graph, feeds: list[Feeds]) -> tuple[list[Feeds], list[Feeds]]:
    """Feeds that give ranges, and those that measure: every fourth of ``ENOUGH`` or more, or where feeds follow on each
    other the last quarter."""
    if not feeds:
        raise ModelError("the calibration holds no feed; give at least one, or none at all for seeded ones")
    if len(feeds) < ENOUGH:
        return feeds, []
    if graph.states:
        return feeds[: -(len(feeds) // 4)], feeds[-(len(feeds) // 4) :]
    return [f for n, f in enumerate(feeds) if n % 4 != 3], feeds[3::4]


def _checked(graph: Graph, feed: Mapping[str, Any], number: int) -> Feeds:
    arrays: Feeds = {}
    for name in graph.inputs:
        kind = graph.types[name]
        array = np.asarray(feed[name]) if name in feed else None
        if array is None or (array.dtype, array.shape) != (kind.dtype.numpy, kind.shape):
            what = "missing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise ModelError(f"calibration feed {number}: input {name!r} is {what}, the model takes {kind}")
        if kind.dtype.is_float and np.isnan(array).any():
            raise ModelError(f"calibration feed {number}: input {name!r} holds what is not a number")
        arrays[name] = array
    return arrays


class _Watch:
    """Looks at every value as it is computed; ``headroom`` widens its range."""

    def __init__(self, graph: Graph, headroom: float, coded: CodedWeights) -> None:
        self.graph, self.headroom, self.coded = graph, headroom, coded
        self.ranges: dict[str, Range] = {}
        self.loss: dict[str, dict[str, float]] = {}
        self.measuring = False

    def range(self, name: str, array: Array) -> None:
        if self.graph.types[name].dtype != DType.F32 or not array.size:
            return
        low, high = (float(edge) * self.headroom for edge in (array.min(), array.max()))
        if name in self.ranges:
            low, high = min(low, self.ranges[name][0]), max(high, self.ranges[name][1])
        self.ranges[name] = (low, high)

    def __call__(self, node: Node, values: Mapping[str, Array]) -> None:
        if node.output not in values:  # in a branch that was not taken
            return
        self.range(node.output, values[node.output])
        if not (self.measuring and isinstance(node, Compute) and is_float_contraction(node)):
            return
        if has_codes(node, self.graph):
            found = losses(node, self.graph, values, self.ranges, self.coded)
            before = self.loss.get(node.output, found)
            self.loss[node.output] = {mode: min(value, before[mode]) for mode, value in found.items()}


def losses(
    node: Compute, graph: Graph, values: Mapping[str, Array], ranges: Mapping[str, Range], coded: CodedWeights
) -> dict[str, float]:
    """Signal-to-noise ratio of one contraction by mode, its own result in floats, inputs as they are.

    ``ranges``: over this feed and those before it, so that a quiet feed is measured with the scale that a loud one asks for.
    """
    moving, _ = factors(node, graph)
    operand = node.operands[moving]
    found = {}
    if operand.fill in (None, 0.0):
        kind = encoding(*ranges.get(operand.value, (0.0, 0.0)), plain_zero=not correctable(node, graph))
        plan = Plan({operand.value: kind}, {node.output: STATIC})
        found[STATIC] = _loss(node, values, Conversion(graph, plan, coded))
    if row_dims(node, graph) is not None:
        found[ROW] = _loss(node, values, Conversion(graph, Plan({}, {node.output: ROW}), coded))
    return found


def _loss(node: Compute, values: Mapping[str, Array], work: Conversion) -> float:
    work.node(node)
    known = {**values, **work.constants}
    known.pop(node.output, None)
    for value, storage in work.plan.storage.items():
        known[value] = stored_array(values[value], storage)
    for step in work.nodes:
        known[step.output] = evaluate_node(step, known, work.types[step.output].shape)
    return decibels(*powers(values[node.output], known[node.output]))
