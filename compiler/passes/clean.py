"""Removing what nobody needs: dead operations, known results, work done twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from compiler.ir import Compute, Graph, Node, Scatter, reads_of
from compiler.ir.builder import FOLD_BYTES, FOLD_POINTS, rename_node
from compiler.ir.interpreter import InterpreterFault, evaluate_node
from compiler.ir.text import digest

BEGINNING = 64  # elements by which constants are told apart before all of them are compared


def uses(graph: Graph) -> Counter[str]:
    """How often each value is read, graph outputs and state updates included."""
    counts: Counter[str] = Counter(v for node in graph.nodes for v in reads_of(node))
    counts.update(graph.outputs)
    counts.update(s.update for s in graph.states)
    return counts


def dead_code(graph: Graph) -> Graph:
    """Without operations and constants that no output needs."""
    live = {*graph.outputs, *(s.update for s in graph.states)}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if node.output in live:
            kept.append(node)
            live.update(reads_of(node))
    constants = {name: array for name, array in graph.constants.items() if name in live}
    defined = {*graph.inputs, *constants, *(s.input for s in graph.states), *(n.output for n in kept)}
    types = {name: kind for name, kind in graph.types.items() if name in defined}
    return replace(graph, nodes=tuple(reversed(kept)), constants=constants, types=types)


def fold(graph: Graph) -> Graph:
    """Operations on constants alone become constants."""
    constants = dict(graph.constants)
    kept: list[Node] = []
    for node in graph.nodes:
        kind = graph.types[node.output]
        work = prod(node.loops) * len(node.expr.steps) if isinstance(node, Compute) else kind.elements
        if isinstance(node, Scatter):
            work += prod(node.loops)
        known = all(v in constants for v in reads_of(replace(node, guard=None))) and node.output not in graph.outputs
        if known and work <= FOLD_POINTS and kind.bytes <= FOLD_BYTES:
            try:
                constants[node.output] = evaluate_node(node, constants, kind.shape)
                continue
            except InterpreterFault:
                pass  # a fault of the running program: it stays one
        kept.append(node)
    return replace(graph, nodes=tuple(kept), constants=constants)


def _twins(constants: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, str]:
    """Constants that equal an earlier one, bit by bit: the first of them. Only of those that begin alike all is compared."""
    alike: dict[object, list[str]] = {}
    for name, array in constants.items():
        alike.setdefault((array.dtype.str, array.shape, array.flat[:BEGINNING].tobytes()), []).append(name)
    found: dict[str, str] = {}
    for names in alike.values():
        stored: dict[str, str] = {}
        for name in names if len(names) > 1 else ():
            found[name] = stored.setdefault(digest(constants[name]), name)
    return found


def merge_equal(graph: Graph) -> Graph:
    """Equal operations on equal values are done once; equal constants are stored once."""
    names: dict[str, str] = {}
    constants = {}
    twins = _twins(graph.constants)
    for name, array in graph.constants.items():
        first = twins.get(name, name)
        if first == name or name in graph.outputs:
            constants[name] = array
        else:
            names[name] = first
    seen: dict[object, Node] = {}
    kept: list[Node] = []
    sources: dict[str, tuple[str, ...]] = {}
    for node in graph.nodes:
        node = rename_node(node, names)
        key = (type(node), graph.types[node.output], repr(replace(node, name="", output="", source=())))
        first_node = seen.setdefault(key, node)
        if first_node is node or node.output in graph.outputs:
            kept.append(node)
        else:
            names[node.output] = first_node.output
            merged = sources.get(first_node.output, first_node.source)
            sources[first_node.output] = (*merged, *(s for s in node.source if s not in merged))
    kept = [replace(n, source=sources.get(n.output, n.source)) for n in kept]
    states = tuple(replace(s, update=names.get(s.update, s.update)) for s in graph.states)
    return dead_code(replace(graph, nodes=tuple(kept), constants=constants, states=states))
