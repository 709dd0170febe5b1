"""Building a graph node by node: shapes are worked out, and what depends on constants alone is computed at once."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from compiler.errors import ModelError
from compiler.ir.access import Access
from compiler.ir.graph import (
    Compute,
    Gather,
    Graph,
    Guard,
    Join,
    Merge,
    Node,
    Operand,
    Reshape,
    Scatter,
    Sort,
    View,
    reads_of,
    with_operands,
)
from compiler.ir.interpreter import InterpreterFault, evaluate_node
from compiler.ir.mapped import release
from compiler.ir.terms import Term, arg, expression
from compiler.ir.types import DType, TensorType

Array = np.ndarray[Any, Any]
Contents = tuple[DType, tuple[int, ...], bytes]  # of a constant: its type, its shape and the SHA-256 of its bytes
FOLD_POINTS = 1 << 24  # points that folding may evaluate for one node
FOLD_PRODUCTS = 1 << 28  # likewise of a contraction, which is evaluated many times as fast
FOLD_BYTES = 1 << 26  # and bytes that it may store
FOLD_FREE = 1 << 14  # points that always fold: shape arithmetic
FOLD_TOTAL = (
    1 << 31
)  # points that all other folding of one model may evaluate: a hostile model folds no longer than this


@dataclass(frozen=True)
class Dequantised:
    """What a float value was before: ``(value - zero) * scale`` with one scale, or one for each place along ``axis``."""

    value: str
    scale: str
    zero: str | None
    axis: int | None


class Builder:
    """A graph in the making. Methods return the name of the value they define."""

    def __init__(
        self,
        name: str,
        *,
        max_bytes: int = 1 << 31,
        max_nodes: int = 200_000,
        max_stored: int = 1 << 34,
        stored: dict[Contents, Array] | None = None,
    ) -> None:
        """``stored``: contents of constants, which graphs of one model have once if they are given the same one."""
        self.name = name
        self.inputs: list[str] = []
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Array] = {}
        self.nodes: list[Node] = []
        self.source: tuple[str, ...] = ()
        self.guard: Guard | None = None  # of every node that is added
        self.guards: dict[str, Guard] = {}  # values that a guarded node defines
        self.dequantised: dict[str, Dequantised] = {}  # float values of which the codes are known
        self._max_bytes, self._max_nodes, self._max_stored = max_bytes, max_nodes, max_stored
        self.lengths: dict[
            str, tuple[int, str]
        ] = {}  # value -> axis whose size the data decides, and the value saying it
        self._literals: dict[Contents, str] = {}
        self._arrays: dict[Contents, Array] = {} if stored is None else stored
        self._count = 0
        self._fold_left = FOLD_TOTAL
        self._stored = 0

    # -- values ---------------------------------------------------------------------------------------------------------

    def shape(self, value: str) -> tuple[int, ...]:
        return self.types[value].shape

    def dtype(self, value: str) -> DType:
        return self.types[value].dtype

    def input(self, name: str, kind: TensorType) -> str:
        """A graph input: a value of that name."""
        self._check(kind)
        self.inputs.append(name)
        self.types[name] = kind
        return name

    def constant(self, array: Array) -> str:
        """A constant; equal constants are one value."""
        array = np.array(array, order="C") if array.flags.writeable else np.asarray(array, order="C")
        array.flags.writeable = False
        kind = TensorType(DType.of(array.dtype), array.shape)
        key = (kind.dtype, kind.shape, hashlib.sha256(array.reshape(-1).view(np.uint8).data).digest())
        release(array)
        if key not in self._literals:
            self._check(kind)
            self._stored += kind.bytes
            if self._stored > self._max_stored:
                raise ModelError(
                    f"The model's constants take more than {self._max_stored} bytes. Choose smaller dimensions."
                )
            self._literals[key] = self._define(kind)
            self.constants[self._literals[key]] = self._arrays.setdefault(key, array)
        return self._literals[key]

    def known(self, value: str) -> Array | None:
        """The value's contents if they are known at compile time."""
        return self.constants.get(value)

    def _check(self, kind: TensorType) -> None:
        if kind.bytes > self._max_bytes:
            raise ModelError(
                f"A tensor {kind} would take {kind.bytes} bytes; the limit is {self._max_bytes}. Choose smaller dimensions."
            )

    def _define(self, kind: TensorType) -> str:
        self._count += 1
        name = f"%{self._count}"
        self.types[name] = kind
        return name

    def _emit(self, kind: TensorType, work: int, make: Callable[[str, str], Node]) -> str:
        """The node, or its value when it is known already or holds nothing."""
        self._check(kind)
        if not kind.elements:
            return self.constant(np.zeros(kind.shape, kind.dtype.numpy))
        node = make("", "")
        if self._folds(node, kind, work):
            try:
                return self.constant(evaluate_node(node, self.constants, kind.shape))
            except InterpreterFault as fault:
                raise ModelError(f"Reads outside its data: {fault}.") from fault
        if len(self.nodes) >= self._max_nodes:
            raise ModelError(f"The model unrolls to more than {self._max_nodes} operations.")
        name = self._define(kind)
        made = make(f"{self.source[0] if self.source else 'node'}/{len(self.nodes)}", name)
        if self.guard:
            self.guards[name] = self.guard
            made = replace(made, guard=self.guard)
        self.nodes.append(made)
        return name

    def _folds(self, node: Node, kind: TensorType, work: int) -> bool:
        """Whether the node is evaluated at once: all that it reads is known, and there is work left to do so."""
        most = FOLD_PRODUCTS if isinstance(node, Compute) and node.is_contraction else FOLD_POINTS
        known = all(v in self.constants for v in reads_of(node)) and work <= most and kind.bytes <= FOLD_BYTES
        if known and work > FOLD_FREE:
            self._fold_left -= work
            return self._fold_left >= 0
        return known

    # -- primitives -----------------------------------------------------------------------------------------------------

    def compute(
        self,
        loops: Sequence[int],
        operands: Sequence[Operand],
        term: Term,
        *,
        parallel: int | None = None,
        reducer: str | None = None,
        post: Term | None = None,
    ) -> str:
        """A ``Compute`` whose expressions are terms over ``arg(i)``; without ``parallel`` all loops are."""
        loops = tuple(loops)
        outer = len(loops) if parallel is None else parallel
        if reducer is not None and outer == len(loops):
            loops = (*loops, 1)
            operands = [o.keep((*range(outer), None)) for o in operands]
        if reducer is not None and 0 in loops[outer:]:
            return self._empty_reduction(loops[:outer], operands, term, reducer, post)
        kind = TensorType((post or term).dtype, loops[:outer])
        steps, after = expression(term), expression(post) if post is not None else None
        return self._emit(
            kind,
            prod(loops) * len(steps.steps),
            lambda name, out: Compute(name, out, self.source, loops, outer, tuple(operands), steps, reducer, after),
        )

    def _empty_reduction(
        self, shape: tuple[int, ...], operands: Sequence[Operand], term: Term, reducer: str, post: Term | None
    ) -> str:
        from compiler.numerics.reduce import identity

        value = self.constant(np.full(shape, identity(reducer, term.dtype.numpy), term.dtype.numpy))
        if post is None:
            return value
        n = len(shape)
        reduced = Operand(value, Access.identity(n))
        outer = [o.keep(range(n)) if self.types[o.value].elements else reduced for o in operands]
        outer.append(reduced)
        from compiler.ir.terms import term_of

        return self.compute(shape, outer, term_of(expression(post), {-1: arg(len(operands), term.dtype)}))

    def view(self, value: str, shape: Sequence[int], access: Access, fill: float | None = None) -> str:
        """``out[p] = value[access(p)]``; the identity is the value itself."""
        kind = TensorType(self.dtype(value), tuple(shape))
        if kind.shape == self.shape(value) and access == Access.identity(len(kind.shape)):
            return value
        if fill is not None and 0 not in kind.shape and access.stays_inside(self.shape(value), kind.shape):
            fill = None
        operand = Operand(value, access, fill)
        return self._emit(kind, kind.elements, lambda name, out: View(name, out, self.source, operand))

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        kind = TensorType(self.dtype(value), tuple(shape))
        if kind.shape == self.shape(value):
            return value
        if kind.elements != prod(self.shape(value)):
            raise ModelError(
                f"an operand of {kind.elements} elements is needed, not one of shape {list(self.shape(value))}."
            )
        return self._emit(kind, kind.elements, lambda name, out: Reshape(name, out, self.source, value))

    def gather(self, value: str, shape: Sequence[int], access: Access, indices: Sequence[Operand | None]) -> str:
        kind = TensorType(self.dtype(value), tuple(shape))
        data = Operand(value, access)
        return self._emit(
            kind, kind.elements, lambda name, out: Gather(name, out, self.source, kind.shape, data, tuple(indices))
        )

    def scatter(
        self,
        data: str,
        loops: Sequence[int],
        target: Access,
        indices: Sequence[Operand | None],
        update: Operand,
        reducer: str | None = None,
    ) -> str:
        """``data`` with an update written for every point of ``loops`` (see ``Scatter``)."""
        if 0 in loops:
            return data
        kind, shape = self.types[data], tuple(loops)
        return self._emit(
            kind,
            prod(shape) + kind.elements,
            lambda name, out: Scatter(name, out, self.source, shape, data, target, tuple(indices), update, reducer),
        )

    def sort(self, value: str, keep: int) -> str:
        """The first ``keep`` whole numbers along the last dimension, ascending."""
        kind = self.types[value]
        made = TensorType(kind.dtype, (*kind.shape[:-1], keep))
        return self._emit(made, kind.elements, lambda name, out: Sort(name, out, self.source, value, keep))

    def join(self, parts: Sequence[str], axis: int) -> str:
        """Parts side by side; empty parts are left out."""
        full = [p for p in parts if self.types[p].elements] or list(parts)
        if len(full) == 1:
            return full[0]
        first = self.types[full[0]]
        size = sum(self.shape(p)[axis] for p in full)
        if not first.elements:
            return self.constant(np.zeros((*first.shape[:axis], size, *first.shape[axis + 1 :]), first.dtype.numpy))
        kind = TensorType(first.dtype, (*first.shape[:axis], size, *first.shape[axis + 1 :]))
        return self._emit(kind, kind.elements, lambda name, out: Join(name, out, self.source, tuple(full), axis))

    def keep(self, value: str) -> str:
        """The same value computed anew, under the guard that is set."""
        shape = self.shape(value)
        return self.compute(shape, [Operand(value, Access.identity(len(shape)))], arg(0, self.dtype(value)))

    def merge(self, parts: Sequence[tuple[Guard | None, str]]) -> str:
        """The last part whose guard holds; parts are of one type."""
        kind = self.types[parts[0][1]]
        if len({v for _, v in parts}) == 1:
            return parts[0][1]
        return self._emit(kind, FOLD_POINTS + 1, lambda name, out: Merge(name, out, self.source, tuple(parts)))

    # -- the end --------------------------------------------------------------------------------------------------------

    def finish(self, outputs: Mapping[str, str], names: Mapping[str, str], metadata: Mapping[str, str]) -> Graph:
        """The graph. ``outputs``: the model's output name -> value. ``names``: value -> the model's name for it.

        An output whose length the data decides brings an output of its own that holds it (``name.length``).
        """
        outputs, lengths = self._with_lengths(outputs)
        renamed = self._renamed(self._public(outputs), {*self.inputs, *outputs}, names)
        return Graph(
            self.name,
            tuple(self.inputs),
            tuple(outputs),
            {renamed[v]: t for v, t in self.types.items()},
            {renamed[v]: a for v, a in self.constants.items()},
            tuple(rename_node(n, renamed) for n in self.nodes),
            (),
            dict(metadata),
            lengths,
        )

    def _public(self, outputs: Mapping[str, str]) -> dict[str, str]:
        """Output names by the values that have them: of what is an input, a constant or another output too, a copy."""
        fixed: dict[str, str] = {}
        made = {n.output for n in self.nodes}
        for public, value in outputs.items():
            if value in made and value not in fixed:
                fixed[value] = public
            elif value != public:
                self.source = (public,)
                copy = self._define(self.types[value])
                whole = Operand.whole(value, len(self.shape(value)))
                self.nodes.append(View(f"{public}/copy", copy, self.source, whole))
                fixed[copy] = public
        return fixed

    def _renamed(self, fixed: Mapping[str, str], taken: set[str], names: Mapping[str, str]) -> dict[str, str]:
        """By value its name in the graph: an output's, an input's, the model's, or one with a number behind it."""
        renamed: dict[str, str] = {}
        for value in self.types:
            if value in fixed or value in self.inputs:
                renamed[value] = fixed.get(value, value)
            else:
                renamed[value] = unused(names.get(value, value), taken)
            taken.add(renamed[value])
        return renamed

    def _with_lengths(self, outputs: Mapping[str, str]) -> tuple[dict[str, str], dict[str, tuple[int, str]]]:
        extended, lengths = dict(outputs), {}
        for public, value in outputs.items():
            if value in self.lengths:
                axis, length = self.lengths[value]
                name = unused(f"{public}.length", {*extended, *self.inputs})
                extended[name] = length
                lengths[public] = (axis, name)
        return extended, lengths


def unused(name: str, taken: set[str]) -> str:
    """The name, or the first one with a number behind it that is not taken."""
    candidate, n = name, 1
    while candidate in taken:
        n += 1
        candidate = f"{name}.{n}"
    return candidate


def rename_node(node: Node, names: Mapping[str, str]) -> Node:
    """The node with every value under its new name (values that are not in ``names`` keep theirs)."""

    def new(value: str) -> str:
        return names.get(value, value)

    def guarded(guard: Guard | None) -> Guard | None:
        return guard and replace(guard, value=new(guard.value))

    node = replace(node, output=new(node.output), guard=guarded(node.guard))
    if isinstance(node, Reshape | Sort):
        return replace(node, input=new(node.input))
    if isinstance(node, Join):
        return replace(node, parts=tuple(new(p) for p in node.parts))
    if isinstance(node, Merge):
        return replace(node, parts=tuple((guarded(g), new(v)) for g, v in node.parts))
    if isinstance(node, Scatter):
        node = replace(node, data=new(node.data))
    return with_operands(node, lambda operand: replace(operand, value=new(operand.value)))
