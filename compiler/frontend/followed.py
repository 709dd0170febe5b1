"""Values of two graphs of one model, lowered for caches of two lengths: what they are for the length that a run finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, NoReturn

import numpy as np

from compiler.errors import ModelError
from compiler.frontend.caches import Cache
from compiler.ir import (
    Access,
    Compute,
    DType,
    Gather,
    Graph,
    Node,
    Operand,
    Reshape,
    TensorType,
    Term,
    arg,
    expression,
    index,
)
from compiler.ir.builder import unused

Array = np.ndarray[Any, Any]
LENGTH = "cache_length"


@dataclass
class Followed:
    """Nodes in the making. ``names``: what is read for a value of the graph."""

    graph: Graph
    other: Graph
    caches: Sequence[Cache]
    context: int
    nodes: list[Node] = field(default_factory=list)
    types: dict[str, TensorType] = field(default_factory=dict)
    constants: dict[str, Array] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    source: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.types, self.constants = dict(self.graph.types), dict(self.graph.constants)
        first = self.caches[0]
        self.past = self.graph.types[first.past].shape[first.axis]
        self.step = self.other.types[first.past].shape[first.axis] - self.past
        self.tokens = self.context - self.past
        self.length = self._unused(LENGTH)
        self.types[self.length] = TensorType(DType.I64, (1,))
        self.joins = {c.present: c for c in self.caches}
        self.read: dict[tuple[str, str], str] = {}  # constants of both graphs -> what is read instead

    def _refuse(self, why: str) -> NoReturn:
        raise ModelError(
            f"{why}, so a cache of fixed length cannot replace the growing one. Leave the context out and choose a size for "
            "the rows.",
            node=self.source[0] if self.source else "",
        )

    # -- what differs between the two graphs ----------------------------------------------------------------------------

    def _rows_of(self, value: str, other: str) -> tuple[int, ...]:
        """Dimensions of a value that are as long as a cache with its new rows."""
        a, b = self.graph.types[value].shape, self.other.types[other].shape
        if len(a) != len(b):
            self._refuse("gives another number of dimensions when the caches have another length")
        for n, m in zip(a, b, strict=True):
            if n != m and (n, m) != (self.context, self.context + self.step):
                self._refuse("makes a dimension of the caches' rows and of something else")
        return tuple(j for j, (n, m) in enumerate(zip(a, b, strict=True)) if n != m)

    def _loops_of(self, old: Sequence[int], new: Sequence[int]) -> frozenset[int]:
        for n, m in zip(old, new, strict=True):
            if n != m and (n, m) != (self.context, self.context + self.step):
                self._refuse("runs over the caches' rows and something else in one loop")
        return frozenset(i for i, (n, m) in enumerate(zip(old, new, strict=True)) if n != m)

    def _value(self, value: str, other: str) -> str:
        """What is read for a value of both graphs: of a constant what it is at this length."""
        a, b = self.graph.constants.get(value), self.other.constants.get(other)
        if a is None or b is None:
            if (a is None) != (b is None):
                self._refuse("reads what is known at compile time for one length of the caches only")
            return self.names.get(value, value)
        if a is b:
            return value
        if (value, other) not in self.read:
            self.read[value, other] = self._constant(value, a, b)
        return self.read[value, other]

    def _constant(self, value: str, a: Array, b: Array) -> str:
        if a.shape == b.shape:
            if np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
                return value
            return self._counted(value, a, b) if a.dtype.kind in "iu" else self._of_table(a, b)
        return self._along(value, a, b)

    def _along(self, value: str, a: Array, b: Array) -> str:
        """A constant over the rows: the same for each row, or the same for each distance from the last."""
        rows = [j for j, (n, m) in enumerate(zip(a.shape, b.shape, strict=False)) if n != m]
        sizes = (self.context, self.context + self.step)
        if a.ndim == b.ndim and len(rows) == 1 and (a.shape[rows[0]], b.shape[rows[0]]) == sizes:
            mine, theirs = (np.moveaxis(x, rows[0], 0) for x in (a, b))
            common = min(sizes)
            if np.array_equal(mine[:common], theirs[:common]):
                return value
            if np.array_equal(mine[-common:], theirs[-common:]):
                return self._shifted(value, rows[0])
        return self._refuse("reads a constant that follows the caches' length in no known way")

    def _counted(self, value: str, a: Array, b: Array) -> str:
        """Whole numbers that count up with the length."""
        each, rest = np.divmod(b.astype(np.int64) - a, self.step)
        if rest.any():
            self._refuse("reads whole numbers that do not count up with the caches' length")
        base = self._new_constant(a.astype(np.int64) - each * self.past)
        factor = self._new_constant(each)
        own = Access.identity(a.ndim)
        operands = [Operand(base, own), Operand(factor, own), Operand(self.length, Access((0,), ((0,) * a.ndim,)))]
        dtype = DType.of(a.dtype)
        return self._map("place", a.shape, operands, lambda x, k, n: (x + k * n).cast(dtype))

    def _of_table(self, a: Array, b: Array) -> str:
        """Rows of a table of the model at places that count up with the length."""
        for name, table in self.graph.constants.items():
            if table.dtype != a.dtype or table.ndim > a.ndim or table.ndim < 1:
                continue
            tail = a.shape[a.ndim - table.ndim + 1 :]
            count = prod(a.shape[: a.ndim - table.ndim + 1])
            places = ((self.past, a), (self.past + self.step, b))
            if table.shape[1:] == tail and all(
                np.array_equal(table[at : at + count], x.reshape(count, *tail)) for at, x in places
            ):
                return self._rows_at(name, a.shape, count)
        return self._refuse("reads floats that follow the caches' length; make the positions an input of the model")

    def _rows_at(self, table: str, shape: tuple[int, ...], count: int) -> str:
        kind = self.types[table]
        rank, out = len(kind.shape), (count, *kind.shape[1:])
        indices = (Operand(self.length, Access((0,), ((0,) * rank,))), *(None for _ in out[1:]))
        made = self._new("rows", TensorType(kind.dtype, out))
        data = Operand(table, Access.identity(rank))
        self.nodes.append(Gather(f"{self.source[0]}/{made}", made, self.source, out, data, indices))
        if out == shape:
            return made
        whole = self._new("rows", TensorType(kind.dtype, shape))
        self.nodes.append(Reshape(f"{self.source[0]}/{whole}", whole, self.source, made))
        return whole

    def _shifted(self, value: str, axis: int) -> str:
        """A constant that goes along with the end of the caches, as it stands for the length that they have."""
        kind = self.types[value]
        rank = len(kind.shape)
        last, ahead = self.context - 1, self.past
        places = self._map(
            "along",
            (self.context,),
            [Operand(self.length, Access((0,), ((0,),)))],
            lambda n: (index(0) - n + ahead).op("min", last),
        )
        matrix = tuple((0,) * rank if j == axis else row for j, row in enumerate(Access.identity(rank).matrix))
        reading = Access((0,), (tuple(int(i == axis) for i in range(rank)),))
        indices = tuple(Operand(places, reading) if j == axis else None for j in range(rank))
        made = self._new("along", kind)
        data = Operand(value, Access((0,) * rank, matrix))
        self.nodes.append(Gather(f"{self.source[0]}/{made}", made, self.source, kind.shape, data, indices))
        return made

    # -- building -------------------------------------------------------------------------------------------------------

    def _map(self, name: str, shape: Sequence[int], operands: Sequence[Operand], make: Callable[..., Term]) -> str:
        term = make(*(arg(i, self.types[o.value].dtype) for i, o in enumerate(operands)))
        made = self._new(name, TensorType(term.dtype, tuple(shape)))
        self.nodes.append(
            Compute(
                f"{self.source[0]}/{made}",
                made,
                self.source,
                tuple(shape),
                len(shape),
                tuple(operands),
                expression(term),
            )
        )
        return made

    def _new(self, name: str, kind: TensorType) -> str:
        made = self._unused(f"{LENGTH}.{name}")
        self.types[made] = kind
        return made

    def _new_constant(self, array: Array) -> str:
        made = self._new("constant", TensorType(DType.of(array.dtype), array.shape))
        self.constants[made] = array
        return made

    def _unused(self, base: str) -> str:
        return unused(base, {*self.types, *self.graph.inputs})
