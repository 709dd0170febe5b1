"""How many operations a model's own functions stand for, counted before any is put in: they multiply inside each other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onnx import AttributeProto, FunctionProto, NodeProto

from compiler.frontend.limits import Limits

Functions = Mapping[tuple[str, str], FunctionProto]


class Expansion:
    """Counts up to one more than the limit. What is nested too deeply, or in itself, counts as nothing: it is refused where
    it is put in."""

    def __init__(self, functions: Functions, limits: Limits) -> None:
        self._functions, self._most, self._depth = functions, limits.graph_nodes, limits.depth
        self._known: dict[tuple[str, str], int] = {}

    def count(self, nodes: Iterable[NodeProto], depth: int = 0) -> int:
        """Operations with the bodies of functions (and of subgraphs, once) put in."""
        total = 0
        for node in nodes:
            total += 1 + self._inside(node, depth)
            if total > self._most:
                return self._most + 1
        return total

    def _inside(self, node: NodeProto, depth: int) -> int:
        if depth > self._depth:
            return 0
        name = ("" if node.domain == "ai.onnx" else node.domain, node.op_type)
        total = 0
        if name in self._functions:
            if name not in self._known:
                self._known[name] = 0
                self._known[name] = self.count(self._functions[name].node, depth + 1)
            total = self._known[name]
        inner = (a.g.node for a in node.attribute if a.type == AttributeProto.GRAPH)
        return total + sum(self.count(nodes, depth + 1) for nodes in inner)
