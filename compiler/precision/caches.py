"""Variables that grow by a row: stored as what reads them wants, so that a step converts its own row and no other."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from compiler.ir import DType, Graph, Node, Scatter
from compiler.ir.interpreter import run
from compiler.numerics.codes import encode

Array = np.ndarray[Any, Any]
Values = dict[str, Array]


def cache_writes(graph: Graph) -> dict[str, Scatter]:
    """By next value of a variable the scatter that makes it by writing rows of floats into the variable."""
    variables = {s.update: s.input for s in graph.states if graph.types[s.input].dtype == DType.F32}
    return {
        n.output: n
        for n in graph.nodes
        if isinstance(n, Scatter) and n.data == variables.get(n.output) and n.reducer is None and n.guard is None
        if n.update.value not in graph.constants
    }


def with_variables(graph: Graph, ranges: Mapping[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """The ranges with those of variables that nothing but rows is written to: the next value's."""
    known = {node.data: ranges[value] for value, node in cache_writes(graph).items() if value in ranges}
    return {**ranges, **known}


def step(
    graph: Graph,
    feed: Mapping[str, Array],
    state: Values,
    watch: Callable[[Node, Mapping[str, Array]], None] | None = None,
) -> Values:
    """One run of a sequence; where the caches are full another sequence begins."""
    held = state.get(graph.metadata.get("length", ""))
    if held is not None and int(held[0]) + int(graph.metadata["tokens"]) > int(graph.metadata["context"]):
        state.clear()
    return run(graph, feed, state, watch)


def stored_state(graph: Graph, state: Mapping[str, Array]) -> Values:
    """Variables of the float32 graph as a converted one keeps them (its metadata says how: ``kept``)."""
    kinds = json.loads(graph.metadata.get("kept", "{}"))
    found = {}
    for name, array in state.items():
        kind = graph.types[name].dtype.numpy
        same = array.dtype == kind
        found[name] = array if same else encode(array, kind, **kinds.get(name, {"scale": 1.0, "zero": 0}))
    return found
