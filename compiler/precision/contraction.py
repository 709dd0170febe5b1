"""Contractions of codes and of float16 numbers: what their factors are read as, and what follows the sum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from compiler.ir import Access, Compute, DType, Graph, Operand, TensorType, Term, arg, const, expression, term_of
from compiler.numerics.scalar import nearest
from compiler.precision.clamps import clamped
from compiler.precision.encoding import Encoding, storing
from compiler.precision.plan import HALF, STATIC, factors
from compiler.precision.reciprocals import without_divisions
from compiler.precision.rewrite import Conversion, Leaves

Array = np.ndarray[Any, Any]
NEAR = 1 << 17  # elements of a constant that are worked on at a time
SMALLEST = 1e-30  # of a row's largest element: a row of zeros keeps its zeros


def contraction(node: Compute, mode: str, work: Conversion) -> Compute:
    """The contraction in a mode of ``compiler.precision.plan``; what else it needs is emitted before it."""
    if mode == HALF:
        return _half(node, work)
    codes = static_codes(node, work) if mode == STATIC else row_codes(node, work)
    return _integer(node, codes, work)


def _half(node: Compute, work: Conversion) -> Compute:
    half = work.plan.half
    names = [work.kept_as(node.operands[i].value, half, node.source) for i in (0, 1)]
    product = arg(0, half).widen("mul", arg(1, half), DType.F32)
    after = term_of(node.post) if node.post is not None else arg(-1, DType.F32)
    return _finished(node, names, product, after, (), work)


@dataclass(frozen=True)
class Codes:
    """The moving factor as codes: ``value`` read with ``fill``; ``scale`` if it is one number, else ``rows``: an operand
    with a scale for every row."""

    value: str
    kind: Encoding
    rows: Operand | None = None


def static_codes(node: Compute, work: Conversion) -> Codes:
    moving, _ = factors(node, work.graph)
    value = node.operands[moving].value
    kind = work.storage(value)
    if not isinstance(kind, Encoding):
        kind = work.plan.copies[value]
    return Codes(work.kept_as(value, kind, node.source), kind)


def row_dims(node: Compute, graph: Graph) -> tuple[int, ...] | None:
    """Dimensions of the moving factor that are reduced, when all others are results': then each row has its own scale."""
    moving, _ = factors(node, graph)
    operand = node.operands[moving]
    if operand.fill not in (None, 0.0) or operand.access.windows(node.parallel):
        return None
    return tuple(sorted({j for i in node.inner for j in operand.access.dims(i)})) or None


def row_codes(node: Compute, work: Conversion) -> Codes:
    """Scales of the rows measured while the program runs: the largest element becomes 127."""
    moving, _ = factors(node, work.graph)
    operand = node.operands[moving]
    dims = row_dims(node, work.graph)
    assert dims is not None
    key = (operand.value, "rows", dims, work.guard)
    if key not in work.copies:
        work.copies[key] = "\n".join(_row_nodes(operand.value, dims, node.source, work))
    name, scales = work.copies[key].split("\n")
    access = operand.access.project(j for j in range(len(operand.access.offset)) if j not in dims)
    return Codes(name, Encoding(DType.I8, 1.0), Operand(scales, access, operand.fill))  # rows outside are codes of zero


def _row_nodes(value: str, dims: tuple[int, ...], source: tuple[str, ...], work: Conversion) -> tuple[str, str]:
    plain = work.kept_as(value, None, source)
    shape = work.graph.types[value].shape
    rank = len(shape)
    kept = [j for j in range(rank) if j not in dims]
    order = [*kept, *dims]
    kind = TensorType(DType.F32, tuple(shape[j] for j in kept))
    inverse, scales = (work.value(f"{value}~{tag}", kind) for tag in ("inverse", "scale"))
    codes = work.value(f"{value}~rows", TensorType(DType.I8, shape))

    def emit(output: str, loops: tuple[int, ...], reads: list[Operand], term: Term, post: Term | None = None) -> None:
        reducer, after = (None, None) if post is None else ("max", expression(post))
        outer = len(loops) if post is None else len(kept)
        name = f"{source[0]}~{output}"
        work.emit(Compute(name, output, source, loops, outer, tuple(reads), expression(term), reducer, after))

    one, number = const(1.0, DType.F32), arg(0, DType.F32)
    rows = Operand(plain, Access.of_loops((order.index(j) for j in range(rank)), rank))
    largest = const(127.0, DType.F32) / arg(-1, DType.F32).op("max", SMALLEST)
    emit(inverse, tuple(shape[j] for j in order), [rows], number.op("abs"), largest)
    own = Operand(inverse, Access.of_loops(kept, rank))
    emit(codes, shape, [work.whole(plain), own], (number * arg(1, DType.F32)).nearest(DType.I8))
    emit(scales, kind.shape, [work.whole(inverse)], one / number)
    return codes, scales


@dataclass(frozen=True)
class Weights:
    """A constant factor as codes: ``dims`` have a scale each, laid out in ``scales``."""

    codes: Array
    scales: Array
    dims: tuple[int, ...]


class CodedWeights:
    """Symmetric codes of constant factors, one scale for every place along the dimensions that a reduction leaves alone.

    Each factor's are made once: calibrating multiplies by the same ones in every mode and for every feed. They are kept by
    the array itself, so what one graph made serves every graph that holds the same constants.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, tuple[int, ...]], tuple[Array, Weights]] = {}

    def of(self, node: Compute, position: int, graph: Graph) -> Weights:
        """Codes of the constant factor at ``position``."""
        array, dims = _scaled_dims(node, position, graph)
        key = (id(array), dims)
        if key not in self._known:
            self._known[key] = array, _coded(array, dims)  # with the array, so that nobody else gets its number
        return self._known[key][1]


def _scaled_dims(node: Compute, position: int, graph: Graph) -> tuple[Array, tuple[int, ...]]:
    """A constant factor, and its dimensions that the reduction leaves alone."""
    operand = node.operands[position]
    array = graph.constants[operand.value]
    inner = frozenset(node.inner)
    dims = tuple(j for j in range(array.ndim) if (moved := operand.access.loops(j)) and inner.isdisjoint(moved))
    return array, dims


def _coded(array: Array, dims: tuple[int, ...]) -> Weights:
    """Codes with a scale for every place along ``dims``."""
    others = tuple(j for j in range(array.ndim) if j not in dims)
    high, low = (end(axis=others, keepdims=True, initial=0.0) for end in (array.max, array.min))
    largest = np.maximum(high, -low).astype(np.float32)
    scales = np.maximum(largest / np.float32(127.0), np.float32(2.0**-120))
    codes = np.empty(array.shape, np.int8)
    rows = max(1, NEAR // max(1, prod(array.shape[1:])))  # a few at a time: what lies between stays in a cache
    parts = [slice(at, at + rows) for at in range(0, len(array), rows)] if array.ndim else [...]
    for part in parts:
        codes[part] = nearest(array[part] / (scales[part] if 0 in dims else scales), codes.dtype)
    return Weights(codes, scales.reshape([array.shape[j] for j in dims]), dims)


def _integer(node: Compute, codes: Codes, work: Conversion) -> Compute:
    moving, constant = factors(node, work.graph)
    assert constant is not None
    weights = work.coded.of(node, constant, work.graph)
    stationary = node.operands[constant]
    stored = work.constant(f"{stationary.value}~i8", weights.codes)
    access = stationary.access.project(weights.dims)
    extra = [Operand(work.constant(f"{stationary.value}~scale", weights.scales * np.float32(codes.kind.scale)), access)]
    names = ["", ""]
    names[moving], names[constant] = codes.value, stored
    kinds = [DType.I8, DType.I8]
    kinds[moving] = codes.kind.dtype
    product = arg(0, kinds[0]).widen("mul", arg(1, kinds[1]), DType.I32)
    first = len(node.operands)
    total = arg(-1, DType.I32).scaled(arg(first, DType.F32))
    if codes.rows is not None:
        extra.append(codes.rows)
        total = total * arg(first + 1, DType.F32)
    if codes.kind.zero:
        missing = zero_correction(node, constant, weights, codes.kind)
        extra.append(Operand(work.constant(f"{stationary.value}~zero", missing), access))
        total = total + arg(first + 1, DType.F32)
    after = term_of(node.post, {-1: total}) if node.post is not None else total
    return _finished(node, names, product, after, tuple(extra), work, codes.kind)


def zero_correction(node: Compute, constant: int, weights: Weights, kind: Encoding) -> Array:
    """What the zero point adds to every sum, with the other sign, as float32: exact whole numbers, rounded once."""
    others = tuple(j for j in range(weights.codes.ndim) if j not in weights.dims)
    total = weights.codes.sum(axis=others, dtype=np.int64) * -kind.zero
    with np.errstate(all="ignore"):
        return np.asarray(total.astype(np.float32) * (weights.scales * np.float32(kind.scale)), np.float32)


def _finished(
    node: Compute,
    names: list[str],
    product: Term,
    after: Term,
    extra: tuple[Operand, ...],
    work: Conversion,
    kind: Encoding | None = None,
) -> Compute:
    """The node with its factors exchanged, other operands read as floats, and the result in its storage."""
    operands, terms = work.reads(node.operands)
    for i, name in enumerate(names):
        operand = node.operands[i]
        fill = None if operand.fill is None else kind.zero if kind is not None else operand.fill
        operands[i] = replace(operand, value=name, fill=fill)
    operands += extra
    known = {i: t for i, t in terms.items() if i > 1}
    tree = clamped(without_divisions(_merged(_substituted(after, known), operands, work)))
    stored = storing(tree, work.storage(node.output), Leaves(work, operands))
    plain = stored.name == "arg" and stored.imm == -1
    done = replace(node, operands=tuple(operands), expr=expression(product), post=None if plain else expression(stored))
    return done.pruned(keep=2)


def _substituted(term: Term, known: dict[int, Term]) -> Term:
    if term.name == "arg":
        return known.get(int(term.imm), term) if isinstance(term.imm, int) else term
    return Term(term.name, tuple(_substituted(a, known) for a in term.args), term.dtype, term.imm)


def _merged(term: Term, operands: list[Operand], work: Conversion) -> Term:
    """Two constant operands added one after the other become one."""
    args = tuple(_merged(a, operands, work) for a in term.args)
    if term.name == "add" and args[1].name == "add":
        args = (args[1], args[0])
    term = Term(term.name, args, term.dtype, term.imm)
    if term.name != "add" or args[0].name != "add":
        return term
    first, second = args[0].args[1], args[1]
    left, right = [_constant(t, operands, work) for t in (first, second)]
    if left is None or right is None:
        return term
    (a, at), (b, also) = left, right
    if at.access != also.access or a.shape != b.shape:
        return term
    operands.append(replace(at, value=work.constant(f"{also.value}~sum", a + b)))
    return args[0].args[0] + arg(len(operands) - 1, DType.F32)


def _constant(term: Term, operands: list[Operand], work: Conversion) -> tuple[Array, Operand] | None:
    if term.name != "arg" or not isinstance(term.imm, int) or term.imm < 0:
        return None
    operand = operands[term.imm]
    array = work.constants.get(operand.value)
    if array is None or array.dtype != np.float32 or operand.fill is not None:
        return None
    access = operand.access  # without dimensions of which one place is read, however many a model writes down
    moved = [j for j in range(array.ndim) if access.loops(j)]
    at = tuple(slice(None) if j in moved else offset for j, offset in enumerate(access.offset))
    return array[at], operand.read_by(access.project(moved))
