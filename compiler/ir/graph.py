"""The computation graph: immutable values and primitives.

Everything that computes point by point is one primitive, ``Compute``: an iteration domain (parallel loops, then reduction
loops), operands read through bounded affine accesses, a scalar expression per point, an optional reducer over the
reduction loops, and an optional expression after it. A contraction is ``mul`` reduced by ``sum``; an elementwise operator
has no reducer; pooling reads a window. ``Gather`` and ``Scatter`` move data whose place is itself data, ``Reshape``
renames coordinates, ``Join`` puts values side by side, ``View`` is a bounded affine access that has not (yet) been folded
into its readers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from compiler.ir.access import Access
from compiler.ir.expr import Expr
from compiler.ir.types import DType, TensorType


@dataclass(frozen=True)
class Operand:
    """A value read through an access; ``fill`` is what a coordinate outside the value yields (None: never outside)."""

    value: str
    access: Access
    fill: int | float | None = None

    @staticmethod
    def whole(value: str, rank: int, loops: int | None = None) -> Operand:
        """Element by element: dimension j along loop j (of ``loops``, where there are more)."""
        return Operand(value, Access.identity(rank, loops))

    def read_by(self, access: Access) -> Operand:
        """The same value and fill, read otherwise."""
        return replace(self, access=access)

    def through(self, access: Access, loops: int) -> Operand:
        """What a map reads so, as a reader that reads the map by ``access`` over ``loops`` loops does."""
        return replace(self, access=self.access.compose(access, loops))

    def keep(self, loops: Iterable[int | None]) -> Operand:
        """Over these loops alone (``Access.keep``)."""
        return replace(self, access=self.access.keep(loops))


@dataclass(frozen=True)
class Guard:
    """A condition known at run time: ``value`` (a bool of one element) is ``holds``.

    A value that a guarded node computes exists only when the guard holds, so a guard named by such a value lies inside
    that guard: the nesting of branches needs no ``and``.
    """

    value: str
    holds: bool = True


@dataclass(frozen=True)
class Part:
    """Which part of an operation a node is, where a pass has cut that operation up.

    ``kind``: ``strip`` (some rows: other units work on another strip meanwhile), ``group`` (some channels, likewise) or
    ``band`` (some rows, one band after the other, so that less is live). ``number``: from 0. ``whole``: the operation's
    output. A node that puts bands together is a ``band`` too.
    """

    kind: str
    number: int
    whole: str


PART_KINDS = ("strip", "group", "band")


@dataclass(frozen=True)
class Node:
    """What all primitives share. ``source``: names of the model's operations it comes from, for reports.

    ``guard``: the node need only be executed when it holds; then nothing but nodes inside that guard and the parts of a
    ``Merge`` may read its output. ``part``: what it is a part of. Names mean nothing: no pass decides by one.
    """

    name: str
    output: str
    source: tuple[str, ...]
    guard: Guard | None = field(default=None, kw_only=True)
    part: Part | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Compute(Node):
    """``output[p] = post(reduce_r(pre(operands[p, r])), operands[p])`` for all parallel p and reduction r.

    ``loops``: extents, the first ``parallel`` of them index the output (output shape == loops[:parallel]).
    ``expr``: evaluated at each (p, r); ``arg i`` is operand i. ``reducer``: ``sum``, ``max``, ``min``, ``prod``, ``any``,
    ``all`` or None (then there are no reduction loops). ``post``: evaluated at each p after the reduction; ``arg i`` is
    operand i, which must not depend on reduction loops; the reduced value is the step ``("arg", imm=-1)``.
    The reduced value has the dtype of ``expr``; the output that of ``post`` if given.
    """

    loops: tuple[int, ...] = ()
    parallel: int = 0
    operands: tuple[Operand, ...] = ()
    expr: Expr = field(default_factory=lambda: Expr(()))
    reducer: str | None = None
    post: Expr | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The output's."""
        return self.loops[: self.parallel]

    @property
    def inner(self) -> range:
        """The reduction loops."""
        return range(self.parallel, len(self.loops))

    @property
    def points(self) -> int:
        return prod(self.loops[: self.parallel])

    @property
    def is_map(self) -> bool:
        """One expression for every point, nothing reduced."""
        return self.reducer is None and self.post is None

    @property
    def indices(self) -> frozenset[int]:
        """Loops whose coordinate its expressions ask for."""
        return self.expr.indices | (self.post.indices if self.post else frozenset())

    def reading(self, positions: Iterable[int]) -> Compute:
        """With these of its operands alone, which must be all that its expressions read."""
        used = list(positions)
        places = {old: new for new, old in enumerate(used)}
        post = self.post and self.post.renumbered(places)
        operands = tuple(self.operands[i] for i in used)
        return replace(self, operands=operands, expr=self.expr.renumbered(places), post=post)

    def pruned(self, keep: int = 0) -> Compute:
        """Without operands that no step reads (but for the first ``keep``)."""
        return self.reading(sorted({*range(keep), *self.expr.reads, *(self.post.reads if self.post else ())}))

    @property
    def reduction(self) -> int:
        """Points reduced into one output element."""
        return prod(self.loops[self.parallel :])

    @property
    def is_contraction(self) -> bool:
        """A sum of products of two operands: what a matrix unit executes."""
        steps = self.expr.steps
        return self.reducer == "sum" and [s.op for s in steps] == ["arg", "arg", "mul"] and steps[2].args == (0, 1)

    @property
    def operations(self) -> int:
        """Billed operations: per reduced point its arithmetic and one reduction step; per output the ``post``."""
        per_point = self.expr.arithmetic + (1 if self.reducer else 0)
        return self.points * (self.reduction * per_point + (self.post.arithmetic if self.post else 0))


@dataclass(frozen=True)
class View(Node):
    """``output[loops] = operand[access(loops)]``: moves nothing until somebody has to store it."""

    operand: Operand = field(default_factory=lambda: Operand("", Access((), ())))


@dataclass(frozen=True)
class Reshape(Node):
    """The same elements in row-major order under another shape."""

    input: str = ""


@dataclass(frozen=True)
class Gather(Node):
    """``output[p] = data[coordinate]`` where coordinate j is ``access_j(p)`` plus the value of an index operand.

    ``loops``: the output's shape. ``data``: operand whose access gives the affine part. ``indices``: for each dimension of
    data None or an operand (an integer value, read through its own access) that is added to that coordinate. A negative
    sum counts from the end; one outside the dimension is a fault at run time.
    """

    loops: tuple[int, ...] = ()
    data: Operand = field(default_factory=lambda: Operand("", Access((), ())))
    indices: tuple[Operand | None, ...] = ()


@dataclass(frozen=True)
class Scatter(Node):
    """``output = data``, then for every point p of ``loops`` in row-major order ``output[coordinate] = update[p]``.

    Coordinate j is ``target_j(p)`` plus the value of an index operand, or that alone (None); a negative sum counts from
    the end, one outside the dimension is a fault at run time. With ``reducer`` (``sum``, ``prod``, ``max``, ``min``) the
    element becomes ``output[coordinate] reducer update[p]``.
    """

    loops: tuple[int, ...] = ()
    data: str = ""
    target: Access = field(default_factory=lambda: Access((), ()))
    indices: tuple[Operand | None, ...] = ()
    update: Operand = field(default_factory=lambda: Operand("", Access((), ())))
    reducer: str | None = None

    @property
    def operations(self) -> int:
        """Billed operations: one per point that is combined; a plain write is none."""
        return prod(self.loops) if self.reducer else 0


@dataclass(frozen=True)
class Sort(Node):
    """The first ``keep`` of the whole numbers along the last dimension in ascending order.

    Numbers alone: who sorts something else packs its key above the place it stands at, which makes the order total.
    """

    input: str = ""
    keep: int = 0


@dataclass(frozen=True)
class Join(Node):
    """The parts one after the other along ``axis``: each part is a slice of the output, so nothing is computed.

    All parts have the output's element type and, but for ``axis``, its shape; at least one part.
    """

    parts: tuple[str, ...] = ()
    axis: int = 0


@dataclass(frozen=True)
class Merge(Node):
    """The last of the parts whose guard holds (None: always), all of the output's type.

    One part is there whenever the merge is, or two hold on opposite sides of one condition: so there always is one.
    ``If`` is a merge of two parts, ``Loop`` one of what it began with and what each trip left.
    """

    parts: tuple[tuple[Guard | None, str], ...] = ()


@dataclass(frozen=True)
class State:
    """A variable that stays on the processor: ``input`` reads it, ``update`` is its next value, ``initial`` its first."""

    input: str
    update: str
    initial: np.ndarray[Any, Any] = field(compare=False)


@dataclass(frozen=True, eq=False)
class Graph:
    """A whole model. ``nodes`` are in a topological order; every value has exactly one definition.

    ``constants`` are stored row-major in their logical shape. ``inputs`` and ``outputs`` are the model's own names; an
    output name may be an input or constant (copied through).

    ``lengths``: for an output whose size along one axis the data decides, that axis and the output (one whole number) that
    says how many of its elements count; its type holds the largest size, and what lies behind the length is dropped.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    types: Mapping[str, TensorType]
    constants: Mapping[str, np.ndarray[Any, Any]]
    nodes: tuple[Node, ...]
    states: tuple[State, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)  # opset, producer, digest of the model, dims bound
    lengths: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Equal means: the same text, which names constants by their digests."""
        from compiler.ir.text import to_text

        return isinstance(other, Graph) and to_text(self) == to_text(other)

    __hash__ = None  # type: ignore[assignment]  # a graph holds arrays

    @property
    def kept(self) -> frozenset[str]:
        """Values that are needed when the program ends, as they are: outputs and next values of variables."""
        return frozenset((*self.outputs, *(s.update for s in self.states)))

    def with_nodes(self, nodes: tuple[Node, ...], **changes: Any) -> Graph:
        return replace(self, nodes=nodes, **changes)


def operands_of(node: Node) -> tuple[Operand, ...]:
    """All operands of a node, in order (a reshape reads its whole input)."""
    if isinstance(node, Compute):
        return node.operands
    if isinstance(node, View):
        return (node.operand,)
    if isinstance(node, Gather):
        return (node.data, *(i for i in node.indices if i is not None))
    if isinstance(node, Scatter):
        return (node.update, *(i for i in node.indices if i is not None))
    return ()


def with_operands(node: Node, change: Callable[[Operand], Operand]) -> Node:
    """The node with every operand changed."""
    if isinstance(node, Compute):
        return replace(node, operands=tuple(map(change, node.operands)))
    if isinstance(node, View):
        return replace(node, operand=change(node.operand))
    if isinstance(node, Gather | Scatter):
        node = replace(node, indices=tuple(i and change(i) for i in node.indices))
    if isinstance(node, Gather):
        return replace(node, data=change(node.data))
    return replace(node, update=change(node.update)) if isinstance(node, Scatter) else node


def reads_of(node: Node) -> tuple[str, ...]:
    """Names of the values that a node reads; the condition of its guard comes last."""
    guard = (node.guard.value,) if node.guard else ()
    if isinstance(node, Reshape):
        return (node.input, *guard)
    if isinstance(node, Sort):
        return (node.input, *guard)
    if isinstance(node, Scatter):
        return (node.data, *(o.value for o in operands_of(node)), *guard)
    if isinstance(node, Join):
        return (*node.parts, *guard)
    if isinstance(node, Merge):
        return (*(v for _, v in node.parts), *(g.value for g, _ in node.parts if g), *guard)
    return (*(o.value for o in operands_of(node)), *guard)


def sources_of(*nodes: Node) -> tuple[str, ...]:
    """The model's operations that nodes come from, each once, in order."""
    return tuple(dict.fromkeys(name for node in nodes for name in node.source))


def output_dtype(node: Compute) -> DType:
    return (node.post or node.expr).dtype


def readers_of(graph: Graph) -> dict[str, list[Node]]:
    """By value the nodes that read it, each once, in the order of the graph; values that nobody reads are left out."""
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for value in dict.fromkeys(reads_of(node)):
            readers.setdefault(value, []).append(node)
    return readers
