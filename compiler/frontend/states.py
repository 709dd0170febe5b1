"""Variables of a model: an input and the output that becomes its next value stay on the processor between inferences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from compiler.errors import ModelError
from compiler.ir import Graph, State, TensorType

Array = np.ndarray[Any, Any]
Pair = tuple[str, str] | tuple[str, str, Array]  # input, output, and what it holds first (zeros)


def pair_problems(states: Sequence[Pair], inputs: Sequence[str], outputs: Sequence[str]) -> list[ModelError]:
    """What is wrong with the names of the pairs."""
    found = []
    for position, known, what in ((0, inputs, "input"), (1, outputs, "output")):
        names = [str(pair[position]) for pair in states]
        for name in dict.fromkeys(names):
            if name not in known:
                listed = ", ".join(map(repr, known)) or "none"
                found.append(ModelError(f"The model has no {what} {name!r} to make a state of; it has {listed}."))
            elif names.count(name) > 1:
                found.append(ModelError(f"The {what} {name!r} is named by two states. Give each state its own."))
    if states and len(states) == len(outputs) and not found:
        found.append(ModelError("All outputs are states, so nothing leaves the processor. Keep at least one output."))
    return found


def with_states(graph: Graph, states: Sequence[Pair]) -> Graph:
    """The graph whose named inputs and outputs are variables; ``ModelError`` where their types differ."""
    made = []
    for pair in states:
        read, update = pair[0], pair[1]
        kind = graph.types[read]
        if graph.types[update] != kind:
            raise ModelError(
                f"The state reads {read!r}, which is {kind}, and becomes {update!r}, which is {graph.types[update]}. "
                "Choose dimensions with which both have the same shape."
            )
        made.append(State(read, update, _initial(pair, kind)))
    inputs = tuple(n for n in graph.inputs if n not in {s.input for s in made})
    outputs = tuple(n for n in graph.outputs if n not in {s.update for s in made})
    return graph.with_nodes(graph.nodes, inputs=inputs, outputs=outputs, states=tuple(made))


def _initial(pair: Pair, kind: TensorType) -> Array:
    if len(pair) == 2:
        return np.zeros(kind.shape, kind.dtype.numpy)
    array = np.asarray(pair[2])
    if array.dtype != kind.dtype.numpy or array.shape != kind.shape:
        raise ModelError(f"The first value of state {pair[0]!r} is {array.dtype}{list(array.shape)}, but it is {kind}.")
    return array
