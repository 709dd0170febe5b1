"""What size the inputs of a model are, as far as the model says: it may normalise them itself, and bytes have their own ends.

``(x - mean) / deviation``, ``x / 255`` or a normalisation with stored statistics at the very beginning tells that what it makes
is of unit size, and so what it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from compiler.ir import Compute, DType, Graph, Node, Reshape, TensorType, View, operands_of, readers_of
from compiler.ir.interpreter import evaluate_node, read

Array = np.ndarray[Any, Any]
PLAIN = frozenset(("arg", "const", "add", "sub", "mul", "muladd", "div", "neg", "cast", "max", "min"))
SUMS: dict[str, Callable[..., Array]] = {"add": np.add, "sub": np.subtract, "neg": np.negative}
Line = tuple[Array, Array]  # factor and term
LARGEST = 1000.0  # of a factor, and of half of a mean: more makes a mask for scores, and is no normalisation
SMALL = 2.0**-6  # a factor alone that is smaller is no 1 / sqrt(width) of attention
ELEMENTS = 1 << 22  # of inputs that are looked into
BYTES = {DType.U8: (0, 255), DType.I8: (-128, 127)}


@dataclass(frozen=True)
class Normal:
    """``shape``: of the normalised value; element ``i`` of it is ``factor[i] * x[places[i]] + term[i]``."""

    shape: tuple[int, ...]
    places: Array
    factor: Array
    term: Array

    def input(self, normalised: Array, kind: TensorType) -> Array:
        """The input that becomes that; of bytes one whose brightness spans them."""
        values = normalised.reshape(-1)
        if kind.dtype in BYTES:
            low, high = BYTES[kind.dtype]
            values = np.clip(np.rint(values * ((high + 1 - low) / 4) + (high + 1 + low) / 2), low, high)
        else:
            values = (values * self.size - self.term) / self.factor
            most = np.finfo(kind.dtype.numpy).max  # what is divided by more than the type can hold six times
            values = np.clip(values, -most, most)
        made = np.empty(kind.elements)
        made[self.places] = values
        return made.reshape(kind.shape).astype(kind.dtype.numpy)

    @property
    def size(self) -> float:
        """Of the normalised value: one, but where a mean alone is taken away, half of it."""
        alone = bool((np.abs(np.abs(self.factor) - 1) < 1e-3).all())  # it comes from rounded values
        return max(1.0, float(np.abs(self.term).max()) / 2) if alone else 1.0


def normals(graph: Graph) -> dict[str, Normal]:
    """By input what it is before it is normalised, where the model says so, and of pictures of bytes."""
    readers = readers_of(graph)
    found = {}
    for name in graph.inputs:
        kind = graph.types[name]
        picture = kind.dtype in BYTES and len(kind.shape) > 2
        if 0 < kind.elements <= ELEMENTS and (picture or kind.dtype.is_float):
            normal = _normal(graph, name, readers)
            if picture or _tells(normal):
                found[name] = normal
    return found


def _tells(normal: Normal) -> bool:
    """Whether that is a normalisation: something is taken away or much is divided by, and no mask is made of numbers. Most
    elements say so: one feature that hardly changes is divided by nearly nothing."""
    factor = float(np.median(np.abs(normal.factor)))
    return factor <= LARGEST and normal.size <= LARGEST and (factor < SMALL or bool(normal.term.any()))


def _normal(graph: Graph, name: str, readers: dict[str, list[Node]]) -> Normal:
    """What nodes that only rearrange, add constants and multiply by them make of an input, one after the other."""
    elements = graph.types[name].elements
    normal = Normal(graph.types[name].shape, np.arange(elements), np.ones(elements), np.zeros(elements))
    value = name
    while len(found := readers.get(value, [])) == 1 and value not in graph.outputs:
        node = found[0]
        further = _after(graph, node, value, normal)
        if further is None:
            break
        normal, value = further, node.output
    return normal


def _after(graph: Graph, node: Node, value: str, before: Normal) -> Normal | None:
    """The same behind one more node; None where that does more than this."""
    shape = graph.types[node.output].shape
    if not isinstance(node, Reshape | View | Compute) or node.guard is not None:
        return None
    moved: Node = node
    factor: Array = np.ones(1)
    term: Array = np.zeros(1)
    if isinstance(node, Compute):
        found = [o for o in node.operands if o.value == value]
        line = _line(graph, node, value) if len(found) == 1 and _is_plain(graph, node, value) else None
        if line is None:
            return None
        moved = View(node.name, node.output, node.source, operand=found[0])
        factor, term = line
    elif any(o.fill is not None for o in operands_of(node)):
        return None
    places = evaluate_node(moved, {value: np.arange(before.places.size).reshape(graph.types[value].shape)}, shape)
    places = places.reshape(-1)
    if not np.array_equal(np.sort(places), np.arange(before.places.size)):
        return None
    return replace(
        before,
        shape=shape,
        places=before.places[places],
        factor=before.factor[places] * factor,
        term=before.term[places] * factor + term,
    )


def _is_plain(graph: Graph, node: Compute, value: str) -> bool:
    """Whether a node computes sums and products with constants, element by element, in floats."""
    others = [o.value for o in node.operands if o.value != value]
    return (
        node.reducer is None
        and graph.types[node.output].dtype.is_float
        and all(step.op in PLAIN and (step.op != "cast" or step.dtype.is_float) for step in node.expr.steps)
        and all(other in graph.constants for other in others)
        and all(operand.fill is None for operand in node.operands)
    )


def _then(op: str, args: list[Line]) -> Line | None:
    """One step on lines; None where no line comes out. Clamps with zero between their ends are looked through."""
    if op == "muladd":
        product = _then("mul", args[:2])
        return None if product is None else _then("add", [product, args[2]])
    if op == "cast":
        return args[0]
    if op in ("add", "sub", "neg"):
        factors, terms = zip(*args, strict=True)
        return SUMS[op](*factors), SUMS[op](*terms)
    (factor, term), (other, constant) = args
    if op == "div":
        return None if np.any(other) else (factor / constant, term / constant)
    if np.any(factor) and np.any(other):
        return None
    if op == "mul":
        return factor * constant + other * term, term * constant
    return _clamped(op, *args)


def _clamped(op: str, left: Line, right: Line) -> Line | None:
    """A line that a number limits, if zero lies between its ends."""
    line, (_, end) = (left, right) if np.any(left[0]) else (right, left)
    return line if np.any(line[0]) and bool((end <= 0 if op == "max" else end >= 0).all()) else None


def _line(graph: Graph, node: Compute, value: str) -> Line | None:
    """Factor and term of the node's elements in a row, in float64: a mean may be so large that float32 rounds the rest away.
    Elements that do not follow the input, or are no numbers, tell nothing and count as the input; None where none does."""
    lines: list[Line] = []
    with np.errstate(all="ignore"):
        for step in node.expr.steps:
            if step.op == "arg":
                operand = node.operands[int(step.imm or 0)]
                mine = operand.value == value
                read_as = 0.0 if mine else read(operand, graph.constants, tuple((0, n) for n in node.loops))
                line: Line | None = np.asarray(float(mine)), np.asarray(read_as, np.float64)
            elif step.op == "const":
                line = np.zeros(()), np.asarray(float(step.imm or 0))
            else:
                line = _then(step.op, [lines[i] for i in step.args])
            if line is None:
                return None
            lines.append(line)
    shape = graph.types[node.output].shape
    factor, term = (np.broadcast_to(part, shape).reshape(-1) for part in lines[-1])
    tells = np.isfinite(factor) & np.isfinite(term) & (factor != 0)
    return (np.where(tells, factor, 1.0), np.where(tells, term, 0.0)) if tells.any() else None
