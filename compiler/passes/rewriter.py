"""A graph that a pass changes: names nobody has yet, types of new values, constants, and who reads what."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from compiler.ir import DType, Graph, Node, Operand, TensorType, readers_of

Array = np.ndarray[Any, Any]


class Rewriter:
    """Collects what a pass makes of ``graph``. ``nodes``: the operations written so far, in order.

    A name that the graph has, or that was given out, is never given out again. So the names of a model mean nothing: what a
    pass calls its values cannot meet one of them.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.types = dict(graph.types)
        self.constants = dict(graph.constants)
        self.nodes: list[Node] = []

    @cached_property
    def _names(self) -> set[str]:
        return {node.name for node in self.graph.nodes}

    @cached_property
    def readers(self) -> dict[str, list[Node]]:
        """By value the nodes of the graph as it was that read it."""
        return readers_of(self.graph)

    @cached_property
    def makers(self) -> dict[str, Node]:
        """By value the node of the graph as it was that makes it."""
        return {node.output: node for node in self.graph.nodes}

    def each(self, make: Callable[[Any], Iterable[Node] | None], *kinds: type[Node]) -> Graph:
        """The graph with what ``make`` makes of every node of these kinds; where that is None the node stays."""
        for node in self.graph.nodes:
            made = make(node) if isinstance(node, kinds) else None
            self.nodes += [node] if made is None else made
        return self.done()

    def whole(self, value: str) -> Operand:
        """A value read element by element."""
        return Operand.whole(value, len(self.types[value].shape))

    def value(self, base: str, kind: TensorType) -> str:
        """A new value of that type, called after ``base``."""
        name = fresh(base, self.types)
        self.types[name] = kind
        return name

    def constant(self, base: str, array: Array) -> str:
        """A new constant, called after ``base``."""
        name = self.value(base, TensorType(DType.of(array.dtype), array.shape))
        self.constants[name] = np.asarray(array, order="C")  # nobody changes one, so none is copied
        return name

    def name(self, base: str) -> str:
        """A new operation's name, called after ``base``."""
        name = fresh(base, self._names)
        self._names.add(name)
        return name

    def done(self, nodes: Iterable[Node] | None = None) -> Graph:
        """The graph with ``nodes`` in place of its own (those written so far where none are given); the graph itself where
        that changes nothing."""
        kept = tuple(self.nodes if nodes is None else nodes)
        if len(kept) == len(self.graph.nodes) and all(a is b for a, b in zip(kept, self.graph.nodes, strict=True)):
            return self.graph
        return replace(self.graph, nodes=kept, types=self.types, constants=self.constants)


def fresh(base: str, *taken: Container[str]) -> str:
    """``base``, or what follows it with a number, that none of ``taken`` holds."""
    name, number = base, 1
    while any(name in some for some in taken):
        number += 1
        name = f"{base}'{number}"
    return name
