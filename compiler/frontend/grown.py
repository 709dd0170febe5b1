"""A graph whose caches are variables of a fixed length, made of two graphs of one model with caches of two lengths.

Row ``j`` of a variable is the cache's row ``j``. A run writes its new rows behind the ``length`` rows that are there and adds
their number to ``length``; what lies behind counts nowhere, because every reduction along the rows leaves it out. What the
model works out from the number of rows of its caches is the same in both graphs (then it does not follow that number), or
counts up with it (positions: made of ``length``), or moves along with it (a bias by distance: read ``length`` places on).
Anything else is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from math import prod

import numpy as np

from compiler.errors import ModelError
from compiler.frontend.caches import Cache
from compiler.frontend.followed import Array, Followed
from compiler.frontend.tails import Tail, tail_of
from compiler.ir import (
    Access,
    Compute,
    DType,
    Gather,
    Graph,
    Join,
    Node,
    Operand,
    Reshape,
    Scatter,
    State,
    Term,
    View,
    arg,
    expression,
    index,
    operands_of,
    reads_of,
    select,
    term_of,
)
from compiler.ir.builder import rename_node
from compiler.numerics.reduce import identity


def grown(graph: Graph, other: Graph, caches: Sequence[Cache], context: int) -> Graph:
    """``graph`` with its caches as variables of ``context`` rows.

    ``graph``: lowered for caches that are ``context`` rows long with the new ones, ``other``: for another number of rows.
    ``ModelError`` names the operation of which a run cannot follow the length.
    """
    for a, b in zip_longest(graph.nodes, other.nodes):
        if type(a) is not type(b):
            raise ModelError(
                "does other operations when the caches have another length, so one program cannot run it. Leave the context "
                "out and choose a size for the rows.",
                node=(a or b).source[0],
            )
    return _Grown(graph, other, caches, context).run()


@dataclass
class _Grown(Followed):
    """The graph in the making. ``tails``: by value what stands behind the length, where that is one known number."""

    tails: dict[str, Tail] = field(default_factory=dict)

    def run(self) -> Graph:
        past = {c.past: c for c in self.caches}
        for old, new in zip(self.graph.nodes, self.other.nodes, strict=True):
            self.source = old.source
            for value in reads_of(old):
                if value in past and old.output not in self.joins:
                    self._refuse(f"reads the cache {value!r} itself, not {past[value].present!r}")
            self._node(old, new)
        self._require_outputs()
        self.source = (self.caches[0].present,)
        following = self._map("next", (1,), [Operand(self.length, Access.identity(1))], lambda n: n + self.tokens)
        states = [State(c.past, c.present, self._zeros(c)) for c in self.caches]
        states.append(State(self.length, following, np.zeros(1, np.int64)))
        outputs = tuple(n for n in self.graph.outputs if n not in self.joins)
        facts = {"context": str(self.context), "tokens": str(self.tokens), "length": self.length}
        return replace(
            self.graph,
            inputs=tuple(n for n in self.graph.inputs if n not in past),
            outputs=outputs,
            nodes=tuple(self.nodes),
            types=self.types,
            constants=self.constants,
            states=(*self.graph.states, *states),
            metadata={**self.graph.metadata, **facts},
        )

    def _zeros(self, cache: Cache) -> Array:
        kind = self.types[cache.past]
        return np.zeros(kind.shape, kind.dtype.numpy)

    def _require_outputs(self) -> None:
        for name in self.graph.outputs:
            if name not in self.joins and self._rows_of(name, name):
                raise ModelError(
                    f"The output {name!r} grows with the caches, so no program of a fixed size gives it. Leave it out of the "
                    "model's outputs, or name it and its input as a cache."
                )
        for name in self.graph.inputs:
            if name not in {c.past for c in self.caches} and self.graph.types[name] != self.other.types[name]:
                raise ModelError(
                    f"The input {name!r} grows with the caches, but no output continues it by a Concat of its own. Make it "
                    "part of a cache, or choose its size."
                )

    # -- nodes ----------------------------------------------------------------------------------------------------------

    def _node(self, old: Node, new: Node) -> None:
        if old.output in self.joins:
            self._write(old, self.joins[old.output])
            return
        pairs = list(zip(reads_of(old), reads_of(new), strict=True))
        along = [self._rows_of(a, b) for a, b in ((old.output, new.output), *pairs)]
        reads = tuple(self._value(a, b) for a, b in pairs)
        if old.guard is not None and any(along):
            self._refuse("decides by data whether it reads a cache")
        if isinstance(old, Compute) and isinstance(new, Compute):
            self._compute(old, new, reads)
            return
        self._require_whole_rows(old, new, along)
        self.nodes.append(_reading(old, reads))
        if isinstance(old, View | Reshape):
            self.tails[old.output] = self.tails.get(reads[0])

    def _require_whole_rows(self, old: Node, new: Node, along: Sequence[tuple[int, ...]]) -> None:
        """Refuses a node that moves the rows; ``along``: the dimensions of rows, of its output and of what it reads."""
        if isinstance(old, View | Gather):
            self._moved(old, new, along[1])
        elif isinstance(old, Reshape):
            before, after = (self.graph.types[v].shape for v in (old.input, old.output))
            if [prod(before[:j]) for j in along[1]] != [prod(after[:j]) for j in along[0]]:
                self._refuse("mixes the caches' rows with another dimension")
        elif isinstance(old, Join):
            if old.axis in along[0]:
                self._refuse("joins along the caches' rows")
        elif any(along):
            self._refuse(f"is a {type(old).__name__.lower()} along the caches' rows")

    def _write(self, old: Node, cache: Cache) -> None:
        """The new rows behind those that are there."""
        assert isinstance(old, Join)
        new = self.names.get(old.parts[1], old.parts[1])
        loops = self.types[old.parts[1]].shape
        rank = len(loops)
        at = Operand(self.length, Access((0,), ((0,) * rank,)))
        indices = tuple(at if j == cache.axis else None for j in range(rank))
        own = Access.identity(rank)
        self.types[cache.past] = self.types[cache.present]
        self.nodes.append(
            Scatter(old.name, old.output, old.source, loops, cache.past, own, indices, Operand(new, own), None)
        )

    def _moved(self, old: View | Gather, new: Node, rows: tuple[int, ...]) -> None:
        loops = self._loops_of(self.graph.types[old.output].shape, self.other.types[new.output].shape)
        for a, b in zip(operands_of(old), operands_of(new), strict=True):
            self._accessed(a, b, loops)
        if isinstance(old, Gather) and any(old.indices[j] is not None for j in rows):
            self._refuse("chooses among the caches' rows by data")

    def _accessed(self, a: Operand, b: Operand, loops: frozenset[int]) -> None:
        """An operand that takes whole rows of the caches one for one, or none of their dimensions."""
        if a.access != b.access or a.fill != b.fill:
            self._refuse("reads at places that follow the caches' length")
        for j in self._rows_of(a.value, b.value):
            taken = [i for i, c in enumerate(a.access.matrix[j]) if c]
            if len(taken) != 1 or taken[0] not in loops or a.access.matrix[j][taken[0]] != 1 or a.access.offset[j]:
                self._refuse("takes some of the caches' rows, or in another order")

    def _compute(self, old: Compute, new: Compute, reads: tuple[str, ...]) -> None:
        loops = self._loops_of(old.loops, new.loops)
        for a, b in zip(old.operands, new.operands, strict=True):
            self._accessed(a, b, loops)
        if (old.expr, old.post, old.reducer) != (new.expr, new.post, new.reducer):
            self._refuse("computes with a number that follows the caches' length")
        made = _reading(old, reads)
        assert isinstance(made, Compute)
        reduced = sorted(i for i in loops if i >= old.parallel)
        if reduced:
            made = self._leaving_out(made, reduced[0])
        self.nodes.append(made)
        if loops and not made.reducer:
            self.tails[made.output] = tail_of(made.expr, [self.tails.get(o.value) for o in made.operands])

    def _leaving_out(self, node: Compute, loop: int) -> Compute:
        """A reduction over rows in which those behind the length have no part."""
        neutral = identity(node.reducer or "sum", node.expr.dtype.numpy)
        if tail_of(node.expr, [self.tails.get(o.value) for o in node.operands]) == neutral:
            return node
        if node.expr.is_identity or node.is_contraction:  # in an operand, so that a product stays one
            along = [i for i, o in enumerate(node.operands[:2]) if any(row[loop] for row in o.access.matrix)]
            position = min(along, key=lambda i: node.operands[i].value in self.joins)
            kept = self._kept(node.operands[position], loop, 0 if node.is_contraction else neutral)
            operands = tuple(replace(o, value=kept) if i == position else o for i, o in enumerate(node.operands))
            return replace(node, operands=operands)
        at = Operand(self.length, Access((0,), ((0,) * len(node.loops),)))
        term = select(self._counts(loop, arg(len(node.operands), DType.I64)), term_of(node.expr), neutral)
        return replace(node, operands=(*node.operands, at), expr=expression(term))

    def _counts(self, loop: int, length: Term) -> Term:
        return index(loop).op("lt", length + self.tokens)

    def _kept(self, operand: Operand, loop: int, neutral: float) -> str:
        """The operand's value with ``neutral`` behind the length; whoever reads it from here on reads that."""
        value = operand.value
        shape = self.types[value].shape
        axis = next(j for j, row in enumerate(operand.access.matrix) if row[loop])
        operands = [
            Operand(value, Access.identity(len(shape))),
            Operand(self.length, Access((0,), ((0,) * len(shape),))),
        ]
        made = self._map("kept", shape, operands, lambda x, n: select(self._counts(axis, n), x, neutral))
        self.tails[made] = float(neutral)
        for old, now in list(self.names.items()):
            if now == value:
                self.names[old] = made
        self.names.setdefault(value, made)
        return made


def _reading(node: Node, values: Sequence[str]) -> Node:
    """The node with what it reads (in the order of ``reads_of``) under other names, position by position: one constant may
    have become two values."""
    rest = iter(values)

    def read(operand: Operand) -> Operand:
        return replace(operand, value=next(rest))

    if isinstance(node, Compute):
        return replace(node, operands=tuple(map(read, node.operands)))
    if isinstance(node, View):
        return replace(node, operand=read(node.operand))
    if isinstance(node, Gather):
        return replace(node, data=read(node.data), indices=tuple(i and read(i) for i in node.indices))
    if isinstance(node, Join):
        return replace(node, parts=tuple(values))
    return rename_node(node, dict(zip(reads_of(node), values, strict=True)))
