"""A graph carried over to a plan's storages and modes, node by node."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from compiler.ir import (
    Compute,
    DType,
    Gather,
    Graph,
    Guard,
    Join,
    Merge,
    Node,
    Operand,
    TensorType,
    Term,
    View,
    arg,
    expression,
    term_of,
)
from compiler.passes.rewriter import Rewriter
from compiler.precision.encoding import Encoding, Storage, reading, stored_array, stored_dtype, stored_fill, storing
from compiler.precision.plan import FLOAT, Plan, is_largest
from compiler.precision.reciprocals import without_divisions
from compiler.precision.tables import gathered, is_table

if TYPE_CHECKING:
    from compiler.precision.contraction import CodedWeights

Array = np.ndarray[Any, Any]


class Conversion(Rewriter):
    """The graph in the making: ``copies`` of values by (value, storage, guard); ``guard``: of the node that is rewritten, and
    so of all that it becomes; ``coded``: codes of constant factors, where others have made some."""

    def __init__(self, graph: Graph, plan: Plan, coded: CodedWeights | None = None) -> None:
        from compiler.precision.contraction import CodedWeights

        super().__init__(graph)
        self.plan, self.coded = plan, coded or CodedWeights()
        self.copies: dict[tuple[object, ...], str] = {}
        self.guard: Guard | None = None
        for value, storage in plan.storage.items():
            self.types[value] = replace(self.types[value], dtype=stored_dtype(storage, DType.F32))

    def run(self) -> Graph:
        """The whole graph; a graph input in a storage is given so by the host (``compiler.precision.wire``)."""
        for node in self.graph.nodes:
            self.node(node)
        states = tuple(
            replace(s, initial=stored_array(s.initial, self.storage(s.input))) if self.storage(s.input) else s
            for s in self.graph.states
        )
        return replace(self.graph, nodes=tuple(self.nodes), types=self.types, constants=self.constants, states=states)

    # -- values ---------------------------------------------------------------------------------------------------------

    def storage(self, value: str) -> Storage:
        return self.plan.storage.get(value)

    def emit(self, node: Node) -> str:
        """Append a node that the one which is rewritten needs before it."""
        self.nodes.append(replace(node, name=self.name(node.name), guard=self.guard))
        return node.output

    def kept_as(self, value: str, wanted: Storage, source: tuple[str, ...]) -> str:
        """The value in a storage: itself, a constant made anew, or a copy that a map computes."""
        if self.storage(value) == wanted or self.graph.types[value].dtype != DType.F32:
            return value
        key = (value, wanted, self.guard)
        if key not in self.copies:
            self.copies[key] = self._copy(value, wanted, source)
        return self.copies[key]

    def _copy(self, value: str, wanted: Storage, source: tuple[str, ...]) -> str:
        dtype = stored_dtype(wanted, DType.F32)
        if value in self.graph.constants:
            return self.constant(f"{value}~{dtype.value}", stored_array(self.graph.constants[value], wanted))
        shape = self.graph.types[value].shape
        term = storing(reading(arg(0, self.types[value].dtype), self.storage(value)), wanted, lambda _t, _f, _a: None)
        copy = self.value(f"{value}~{dtype.value}", TensorType(dtype, shape))
        name = f"{source[0] if source else value}~{copy}"
        return self.emit(Compute(name, copy, source, shape, len(shape), (self.whole(value),), expression(term)))

    # -- nodes ----------------------------------------------------------------------------------------------------------

    def node(self, node: Node) -> None:
        """Append what the node becomes."""
        from compiler.precision.contraction import contraction

        self.guard = node.guard
        if isinstance(node, Compute):
            mode = self.plan.modes.get(node.output, FLOAT)
            if mode == FLOAT and is_largest(node) and self.storage(node.output) is not None:
                self.nodes.append(self._largest(node))
            else:
                self.nodes.append(compute(node, self) if mode == FLOAT else contraction(node, mode, self))
        else:
            self.nodes.append(replace(self._moved(node), guard=node.guard))

    def _largest(self, node: Compute) -> Compute:
        storage = self.storage(node.output)
        operand = node.operands[0]
        operand = replace(operand, fill=stored_fill(operand.fill, storage))
        kind = stored_dtype(storage, DType.F32)
        term, largest = arg(0, kind).cast(kind.computed), arg(-1, kind.computed).cast(kind)
        post = None if kind == kind.computed else expression(largest)  # what is only stored is compared as float32
        return replace(node, operands=(operand,), expr=expression(term), post=post)

    def _moved(self, node: Node) -> Node:
        storage = self.storage(node.output)
        if isinstance(node, View):
            return replace(node, operand=replace(node.operand, fill=stored_fill(node.operand.fill, storage)))
        if isinstance(node, Join):
            return replace(node, parts=tuple(self.kept_as(p, storage, node.source) for p in node.parts))
        if isinstance(node, Merge):
            return replace(node, parts=tuple((g, self.kept_as(v, storage, node.source)) for g, v in node.parts))
        if isinstance(node, Gather):
            if self.plan.tables and storage is None and is_table(node, self.graph):
                return gathered(node, self)
            data = replace(node.data, value=self.kept_as(node.data.value, storage, node.source))
            return replace(node, data=data)
        return node

    def reads(self, operands: tuple[Operand, ...]) -> tuple[list[Operand], dict[int, Term]]:
        """Operands of stored values, and the float32 terms that stand for them."""
        made, terms = [], {}
        for i, operand in enumerate(operands):
            storage = self.storage(operand.value)
            made.append(replace(operand, fill=stored_fill(operand.fill, storage)))
            terms[i] = reading(arg(i, self.types[operand.value].dtype), storage)
        return made, terms


@dataclass
class Leaves:
    """Constant operands made anew with a factor in them, for ``storing``."""

    work: Conversion
    operands: list[Operand]
    made: dict[tuple[int, float, float], Term] = field(default_factory=dict)

    def __call__(self, term: Term, factor: float, addend: float) -> Term | None:
        position = term.imm
        if not isinstance(position, int) or position < 0:
            return None
        operand = self.operands[position]
        array = self.work.constants.get(operand.value)
        if array is None or array.dtype != np.float32 or operand.fill is not None:
            return None
        key = (position, factor, addend)
        if key not in self.made:
            with np.errstate(all="ignore"):
                name = self.work.constant(f"{operand.value}~s", array * np.float32(factor) + np.float32(addend))
            self.operands.append(replace(operand, value=name))
            self.made[key] = arg(len(self.operands) - 1, DType.F32)
        return self.made[key]


def compute(node: Compute, work: Conversion) -> Compute:
    """A node whose arithmetic stays in floats: stored operands are read as floats, the result is stored."""
    storage = work.storage(node.output)
    operands, terms = work.reads(node.operands)
    before = term_of(node.expr, terms)
    leaves = Leaves(work, operands)
    if node.reducer is None:
        expr, post = expression(storing(before, storage, leaves)), None
    else:
        expr = expression(before)
        after = term_of(node.post, terms) if node.post is not None else arg(-1, node.expr.dtype)
        stored = storing(without_divisions(after) if node.reducer == "sum" else after, storage, leaves)
        post = None if node.post is None and stored is after else expression(stored)
    return replace(node, operands=tuple(operands), expr=expr, post=post).pruned()


def integers(plan: Plan) -> dict[str, Encoding]:
    """The values that a plan keeps as codes."""
    return {value: s for value, s in plan.storage.items() if isinstance(s, Encoding)}
