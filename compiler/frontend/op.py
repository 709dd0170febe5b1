"""One operation of a model as its lowering rule sees it, and the small vocabulary that rules are written in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from onnx import AttributeProto, GraphProto

from compiler.errors import Hint, ModelError
from compiler.frontend.tensors import tensor_array
from compiler.ir import Access, DType, Operand, Term, arg
from compiler.ir.builder import Builder

Array = np.ndarray[Any, Any]
Lowered = str | tuple[str | None, ...]


class Attributes(Mapping[str, AttributeProto]):
    """Attributes by name, remembering which a rule has asked for: one that nobody reads would change the answer unseen."""

    def __init__(self, given: Mapping[str, AttributeProto], asked: set[str] | None = None) -> None:
        self._given = given
        self.asked = set() if asked is None else asked

    def __getitem__(self, name: str) -> AttributeProto:
        self.asked.add(name)
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def changed(self, others: Mapping[str, AttributeProto], *, alone: bool = False) -> Attributes:
        """Some replaced (or, ``alone``, nothing but those); what is asked of either counts for both."""
        return Attributes({**({} if alone else self._given), **others}, self.asked)

    def unread(self) -> list[str]:
        """Names that no rule has asked for."""
        return [name for name in self._given if name not in self.asked]


class Op:
    """An operation: attributes decoded on demand, inputs as names of values in ``b``."""

    def __init__(
        self,
        b: Builder,
        *,
        name: str,
        label: str = "",
        bound: int | None = None,
        kind: str,
        opset: int,
        attributes: Mapping[str, AttributeProto],
        inputs: Sequence[str | None],
        outputs: int,
        body: Callable[[GraphProto, Mapping[str, str]], tuple[str, ...]] | None = None,
    ) -> None:
        self.b, self.name, self.kind, self.opset, self.outputs = b, name, kind, opset, outputs
        self.attributes = Attributes(attributes)
        self.inputs = tuple(inputs)
        self.body = body  # lowers a subgraph, given values for its inputs
        self.label = label or name  # what the model calls it, inside a body too
        self.bound = bound  # most trips of a loop, as stated by whoever compiles

    def fail(self, message: str, hint: Hint | None = None) -> NoReturn:
        raise ModelError(f"{self.kind}: {message}", node=self.name, hint=hint)

    # -- inputs ---------------------------------------------------------------------------------------------------------

    def has(self, i: int) -> bool:
        return i < len(self.inputs) and self.inputs[i] is not None

    def x(self, i: int = 0) -> str:
        """Input i as a value."""
        value = self.inputs[i] if i < len(self.inputs) else None
        if value is None:
            self.fail(f"input {i + 1} is missing.")
        return value

    def optional(self, i: int) -> str | None:
        return self.inputs[i] if i < len(self.inputs) else None

    def shape(self, i: int = 0) -> tuple[int, ...]:
        return self.b.shape(self.x(i))

    def rank(self, i: int = 0) -> int:
        return len(self.shape(i))

    def dtype(self, i: int = 0) -> DType:
        return self.b.dtype(self.x(i))

    def known(self, i: int, what: str) -> Array:
        """Input i, which must be known at compile time."""
        array = self.b.known(self.x(i))
        if array is None:
            self.fail(
                f"{what} is computed from the data while the model runs, but it must be known to fix its cost. "
                "Make it a constant of the model, or give it as a constant when compiling."
            )
        return array

    def ints(self, attribute: str, i: int, what: str, default: Sequence[int] | None = None) -> list[int]:
        """Whole numbers that older operator sets hold in an attribute and newer ones in input i."""
        if attribute and attribute in self.attributes:
            return self.wholes(attribute)
        if self.has(i):
            return [int(v) for v in self.known(i, what).reshape(-1)]
        if default is None:
            self.fail(f"{what} is missing.")
        return list(default)

    # -- attributes -----------------------------------------------------------------------------------------------------

    def whole(self, name: str, default: int | None = None) -> int:
        a = self.attributes.get(name)
        if a is None:
            return self._missing(name) if default is None else default
        return a.i if a.type == AttributeProto.INT else self._wrong(name)

    def real(self, name: str, default: float | None = None) -> float:
        a = self.attributes.get(name)
        if a is None:
            return self._missing(name) if default is None else default
        return a.f if a.type == AttributeProto.FLOAT else self._wrong(name)

    def text(self, name: str, default: str | None = None) -> str:
        a = self.attributes.get(name)
        if a is None:
            return self._missing(name) if default is None else default
        return a.s.decode("utf-8", "replace") if a.type == AttributeProto.STRING else self._wrong(name)

    def wholes(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        a = self.attributes.get(name)
        if a is None:
            return self._missing(name) if default is None else list(default)
        if a.type == AttributeProto.INT:
            return [a.i]
        return [int(v) for v in a.ints] if a.type == AttributeProto.INTS else self._wrong(name)

    def reals(self, name: str, default: Sequence[float] = ()) -> list[float]:
        a = self.attributes.get(name)
        return list(default) if a is None else list(a.floats)

    def texts(self, name: str, default: Sequence[str] = ()) -> list[str]:
        a = self.attributes.get(name)
        return list(default) if a is None else [s.decode("utf-8", "replace") for s in a.strings]

    def tensor(self, name: str) -> Array | None:
        a = self.attributes.get(name)
        if a is None:
            return None
        return tensor_array(a.t) if a.type == AttributeProto.TENSOR else self._wrong(name)

    def graph(self, name: str) -> GraphProto:
        a = self.attributes.get(name)
        if a is None:
            self._missing(name)
        return a.g if a.type == AttributeProto.GRAPH else self._wrong(name)

    def _missing(self, name: str) -> NoReturn:
        self.fail(f"the attribute {name!r} is missing. Export the model anew, or repair the operation.")

    def _wrong(self, name: str) -> NoReturn:
        self.fail(f"the attribute {name!r} has the wrong type. Export the model anew, or repair the operation.")

    # -- checks ---------------------------------------------------------------------------------------------------------

    def axis(self, axis: int, rank: int) -> int:
        """An axis counted from either end."""
        if not -rank <= axis < rank:
            self.fail(f"the axis {axis} is outside the {rank} dimensions of its input.")
        return axis % rank

    def axes(self, axes: Sequence[int], rank: int) -> tuple[int, ...]:
        found = tuple(self.axis(a, rank) for a in axes)
        if len(set(found)) < len(found):
            self.fail(f"the axes {list(axes)} name a dimension twice.")
        return found

    def need(self, condition: object, message: str, hint: Hint | None = None) -> None:
        if not condition:
            self.fail(message, hint)

    # -- building -------------------------------------------------------------------------------------------------------

    def broadcast(self, *shapes: tuple[int, ...]) -> tuple[int, ...]:
        """The shape to which all broadcast (NumPy's rule)."""
        rank = max(map(len, shapes), default=0)
        out = []
        for j in range(rank):
            sizes = {s[j - rank + len(s)] for s in shapes if j - rank + len(s) >= 0} - {1}
            if len(sizes) > 1:
                self.fail(f"the shapes {' and '.join(str(list(s)) for s in shapes)} do not fit together.")
            out.append(sizes.pop() if sizes else 1)
        return tuple(out)

    def point(self, make: Callable[..., Term], *values: str, shape: Sequence[int] | None = None) -> str:
        """An elementwise expression of broadcasting values: ``make`` gets one term per value."""
        out = self.broadcast(*(self.b.shape(v) for v in values)) if shape is None else tuple(shape)
        operands = [Operand(v, stretched(self.b.shape(v), out)) for v in values]
        return self.b.compute(out, operands, make(*(arg(i, self.b.dtype(v)) for i, v in enumerate(values))))

    def reduce(
        self,
        reducer: str,
        value: str,
        axes: Sequence[int],
        *,
        keep: bool = True,
        term: Callable[[Term], Term] | None = None,
        post: Callable[[Term], Term] | None = None,
    ) -> str:
        """A reduction over whole axes; ``term`` before it, ``post`` after it."""
        shape = self.b.shape(value)
        outer = [j for j in range(len(shape)) if j not in axes]
        order = sorted(range(len(shape)), key=axes.__contains__)  # loops over what is kept, then over what is reduced
        x = arg(0, self.b.dtype(value))
        x = term(x) if term else x
        kind = summed(x.dtype) if reducer == "sum" else x.dtype
        total = arg(-1, kind).cast(x.dtype)
        done = self.b.compute(
            [shape[j] for j in order],
            [Operand(value, transposed(order))],
            x.cast(kind),
            parallel=len(outer),
            reducer=reducer,
            post=post(total) if post else total if kind != x.dtype else None,
        )
        return self.b.reshape(done, [1 if j in axes else n for j, n in enumerate(shape)]) if keep else done

    def contract(
        self, subscripts: str, left: str, right: str, *, dtype: DType | None = None, bias: tuple[str, str] | None = None
    ) -> str:
        """A sum of products in Einstein's notation, one letter per dimension; ``bias`` is (letters, value) added afterwards."""
        inputs, out = subscripts.split("->")
        letters = inputs.split(",")
        sizes: dict[str, int] = {}
        for word, value in zip(letters, (left, right), strict=True):
            for letter, n in zip(word, self.b.shape(value), strict=True):
                if sizes.setdefault(letter, n) not in (n, 1) and n != 1:
                    self.fail(f"dimensions of {sizes[letter]} and {n} do not fit together.")
                sizes[letter] = max(sizes[letter], n)
        order = [*out, *(c for c in dict.fromkeys(letters[1] + letters[0]) if c not in out)]

        def read(word: str, value: str) -> Operand:
            loops = [order.index(c) if n != 1 else None for c, n in zip(word, self.b.shape(value), strict=True)]
            return Operand(value, Access.of_loops(loops, len(order)))

        operands = [read(letters[0], left), read(letters[1], right)]
        added = None if bias is None else read(*bias)
        return self.sum_of_products([sizes[c] for c in order], operands, added, parallel=len(out), dtype=dtype)

    def sum_of_products(
        self,
        loops: Sequence[int],
        factors: Sequence[Operand],
        bias: Operand | None,
        *,
        parallel: int,
        dtype: DType | None = None,
    ) -> str:
        """Two factors multiplied, summed over the loops from ``parallel`` on, and ``bias`` added.

        ``dtype``: of the sums and the result; else sums are as wide as they need to be, and the result is of the first
        factor's type.
        """
        left, right = (self.b.dtype(factor.value) for factor in factors)
        kind = dtype or summed(left)
        term = arg(0, left).widen("mul", arg(1, right), kind)
        post = None
        if bias is not None:
            post = arg(-1, kind) + arg(2, self.b.dtype(bias.value)).cast(kind)
        if dtype is None and kind != left:
            post = (post or arg(-1, kind)).cast(left)
        operands = [*factors, *([] if bias is None else [bias])]
        return self.b.compute(loops, operands, term, parallel=parallel, reducer="sum", post=post)

    def cast(self, value: str, dtype: DType) -> str:
        return value if self.b.dtype(value) == dtype else self.point(lambda x: x.cast(dtype), value)

    def const(self, array: Any, dtype: DType) -> str:
        return self.b.constant(np.asarray(array, dtype.numpy))

    def transpose(self, value: str, order: Sequence[int]) -> str:
        """Dimension i of the result is dimension ``order[i]`` of the value."""
        shape = self.b.shape(value)
        self.need(len(shape) == len(order), f"an input has {len(shape)} dimensions where there should be {len(order)}.")
        return self.b.view(value, [shape[j] for j in order], transposed(order))

    def expand(self, value: str, shape: Sequence[int]) -> str:
        """Broadcast to ``shape``."""
        return self.b.view(value, shape, stretched(self.b.shape(value), tuple(shape)))

    def slice(self, value: str, axis: int, start: int, count: int, step: int = 1) -> str:
        """``count`` elements along one axis, every ``step``-th from ``start`` (which may run backwards)."""
        shape = list(self.b.shape(value))
        access = Access.identity(len(shape))
        rows = tuple(tuple(c * (step if j == axis else 1) for c in row) for j, row in enumerate(access.matrix))
        shape[axis] = count
        return self.b.view(value, shape, Access(tuple(start if j == axis else 0 for j in range(len(shape))), rows))

    def take(self, value: str, axis: int, places: Array) -> str:
        """Elements at known places along one axis: a slice when they are evenly spaced, a view when runs of them are (each
        repeated so often, or all of them again and again), else a gather."""
        n = self.b.shape(value)[axis]
        places = np.where(places < 0, places + n, places).astype(np.int64).reshape(-1)
        if places.size and not (places.min() >= 0 and places.max() < n):
            self.fail(f"an index is outside the {n} elements of its dimension.")
        steps = np.diff(places)
        if places.size and (steps == steps[:1]).all():
            return self.slice(value, axis, int(places[0]), places.size, int(steps[0]) if steps.size else 1)
        run = int(np.argmax(steps != steps[:1])) + 1 if places.size else 1
        if places.size % run == 0:
            grid = places.reshape(-1, run)
            if (np.diff(grid, axis=0) == np.diff(grid[:2, 0])).all() and (np.diff(grid) == steps[0]).all():
                return self._runs(value, axis, grid)
        return self.gather(value, axis, self.b.constant(places))

    def _runs(self, value: str, axis: int, grid: Array) -> str:
        """Elements at ``grid[i, j] = grid[0, 0] + a i + b j`` along one axis, row after row."""
        shape = self.b.shape(value)
        loops = (*shape[:axis], *grid.shape, *shape[axis + 1 :])
        rows = [[0] * len(loops) for _ in shape]
        for j in range(len(shape)):
            rows[j][j if j <= axis else j + 1] = 1
        rows[axis][axis] = int(grid[1, 0] - grid[0, 0])
        rows[axis][axis + 1] = int(grid[0, 1] - grid[0, 0]) if grid.shape[1] > 1 else 0
        offset = tuple(int(grid[0, 0]) if j == axis else 0 for j in range(len(shape)))
        viewed = self.b.view(value, loops, Access(offset, tuple(map(tuple, rows))))
        return self.b.reshape(viewed, (*shape[:axis], grid.size, *shape[axis + 1 :]))

    def gather(self, value: str, axis: int, index: str) -> str:
        """``index`` (any rank) replaces dimension ``axis``."""
        shape, inner = self.b.shape(value), self.b.shape(index)
        out = (*shape[:axis], *inner, *shape[axis + 1 :])
        rows = [[0] * len(out) for _ in shape]
        for j in range(len(shape)):
            if j != axis:
                rows[j][j if j < axis else j + len(inner) - 1] = 1
        reading = tuple(tuple(int(i == axis + j) for i in range(len(out))) for j in range(len(inner)))
        indices: list[Operand | None] = [None] * len(shape)
        indices[axis] = Operand(index, Access((0,) * len(inner), reading))
        return self.b.gather(value, out, Access((0,) * len(shape), tuple(map(tuple, rows))), indices)


def transposed(order: Sequence[int]) -> Access:
    """The access whose loop i runs along dimension ``order[i]``."""
    return Access.of_loops(map(order.index, range(len(order))), len(order))


def summed(dtype: DType) -> DType:
    """The type that sums are kept in: float16 adds up in float32 and is rounded once."""
    return DType.F32 if dtype == DType.F16 else dtype


def stretched(shape: tuple[int, ...], out: tuple[int, ...]) -> Access:
    """How a value of ``shape`` is read to fill ``out`` (NumPy's broadcasting)."""
    shift = len(out) - len(shape)
    rows = tuple(tuple(int(i == j + shift and shape[j] != 1) for i in range(len(out))) for j in range(len(shape)))
    return Access((0,) * len(shape), rows)


Rule = Callable[[Op], Lowered]


def tupled(results: Lowered) -> tuple[str | None, ...]:
    return (results,) if isinstance(results, str) else tuple(results)
