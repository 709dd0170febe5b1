"""Reductions over whole axes, places of extremes, softmax and the normalisations."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from compiler.frontend.op import Op, Rule, transposed
from compiler.ir import Access, DType, Operand, Term, arg, index, select


def _axes(op: Op) -> tuple[int, ...] | None:
    """The reduced axes; None when nothing is to be reduced."""
    wanted = op.ints("axes", 1, "The axes", [])
    if wanted:
        return op.axes(wanted, op.rank())
    return None if op.whole("noop_with_empty_axes", 0) else tuple(range(op.rank()))


def _reduce(
    reducer: str, before: Callable[[Term], Term] | None = None, after: Callable[[Term], Term] | None = None
) -> Rule:
    def rule(op: Op) -> str:
        axes = _axes(op)
        if axes is None:
            made = op.x()
            for step in (before, after):
                made = op.point(step, made) if step else made
            return made
        value = op.x()
        if op.dtype() == DType.BOOL:
            op.need(reducer in ("max", "min"), "adds truth values.")
            return op.reduce("any" if reducer == "max" else "all", value, axes, keep=bool(op.whole("keepdims", 1)))
        return op.reduce(reducer, value, axes, keep=bool(op.whole("keepdims", 1)), term=before, post=after)

    return rule


def _reduce_mean(op: Op) -> str:
    axes = _axes(op)
    if axes is None:
        return op.x()
    count = prod(op.shape()[a] for a in axes)
    op.need(count > 0, "averages over nothing.")
    return op.reduce(
        "sum",
        op.x(),
        axes,
        keep=bool(op.whole("keepdims", 1)),
        post=lambda x: x / (float(count) if x.dtype.is_float else count),
    )


def _log_sum_exp(op: Op) -> str:
    axes = _axes(op)
    if axes is None:
        return op.x()
    top = op.reduce("max", op.x(), axes)
    # An infinite maximum would give inf - inf.
    top = op.point(lambda m: select(m.op("isinf"), 0.0, m), top)
    total = op.reduce("sum", op.point(lambda x, m: (x - m).op("exp"), op.x(), top), axes)
    done = op.point(lambda s, m: s.op("log") + m, total, top)
    if op.whole("keepdims", 1):
        return done
    return op.b.reshape(done, [n for j, n in enumerate(op.shape()) if j not in axes])


def _arg(op: Op, reducer: str) -> str:
    """The first (or last) place of the extreme: it is where the value equals the reduction."""
    axis = op.axis(op.whole("axis", 0), op.rank())
    op.need(op.shape()[axis] > 0, f"looks for an extreme along axis {axis}, which has no elements.")
    last = bool(op.whole("select_last_index", 0))
    best = op.reduce(reducer, op.x(), (axis,))
    done = places_of(op, op.x(), best, axis, last=last)
    keep = bool(op.whole("keepdims", 1))
    return done if keep else op.b.reshape(done, [n for j, n in enumerate(op.shape()) if j != axis])


def places_of(op: Op, value: str, wanted: str, axis: int, *, last: bool = False) -> str:
    """Along ``axis``, the first (or last) place at which ``value`` equals ``wanted`` (of size 1 there)."""
    shape = op.b.shape(value)
    rank = len(shape)
    order = [*(j for j in range(rank) if j != axis), axis]
    fixed = Access.of_loops((order.index(j) if j != axis else None for j in range(rank)), rank)
    dtype = op.b.dtype(value)
    place = index(rank - 1)
    limit = -1 if last else np.iinfo(np.int64).max
    term = select(arg(0, dtype).op("eq", arg(1, dtype)), place, limit)
    done = op.b.compute(
        [shape[j] for j in order],
        [Operand(value, transposed(order)), Operand(wanted, fixed)],
        term,
        parallel=rank - 1,
        reducer="max" if last else "min",
    )
    return op.b.reshape(done, [1 if j == axis else n for j, n in enumerate(shape)])


def softmax(op: Op, value: str, axis: int) -> str:
    """e^(x - max) over its sum, along one axis."""
    top = op.reduce("max", value, (axis,))
    powers = op.point(lambda x, m: (x - m).op("exp"), value, top)
    return op.point(lambda e, s: e / s, powers, op.reduce("sum", powers, (axis,)))


def _along(op: Op, make: Callable[[str, int], str]) -> str:
    """Before operator set 13 these work on a matrix of which ``axis`` is the first column dimension."""
    new = op.opset >= 13
    axis = op.axis(op.whole("axis", -1 if new else 1), op.rank()) if op.rank() else 0
    if new:
        return make(op.x(), axis)
    flat = op.b.reshape(op.x(), (prod(op.shape()[:axis]), prod(op.shape()[axis:])))
    return op.b.reshape(make(flat, 1), op.shape())


def _softmax(op: Op) -> str:
    return _along(op, lambda x, axis: softmax(op, x, axis))


def _log_softmax(op: Op) -> str:
    def make(value: str, axis: int) -> str:
        moved = op.point(lambda x, m: x - m, value, op.reduce("max", value, (axis,)))
        total = op.reduce("sum", moved, (axis,), term=lambda x: x.op("exp"), post=lambda s: s.op("log"))
        return op.point(lambda x, s: x - s, moved, total)

    return _along(op, make)


def _hardmax(op: Op) -> str:
    def make(value: str, axis: int) -> str:
        place = places_of(op, value, op.reduce("max", value, (axis,)), axis)
        shape = op.b.shape(value)
        return op.point(
            lambda p: select(p.op("eq", index(axis)), 1.0, 0.0 * index(0).cast(op.dtype())), place, shape=shape
        )

    return _along(op, make)


def _batch_norm(op: Op) -> tuple[str | None, ...]:
    op.need(not op.whole("training_mode", 0), "runs in training mode. Export the model for inference.")
    op.need(op.opset >= 7 or op.whole("is_test", 0), "runs in training mode. Export the model for inference.")
    epsilon = op.real("epsilon", 1e-5)
    ones = [1] * (op.rank() - 2)
    scale, bias, mean, variance = (op.b.reshape(op.x(i), (*op.shape(i), *ones)) for i in range(1, 5))
    wide = op.dtype(4)
    factor = op.point(lambda s, v: s.cast(wide) / (v + epsilon).op("sqrt"), scale, variance)
    shift = op.point(lambda b, m, f: b.cast(wide) - m * f, bias, mean, factor)
    dtype = op.dtype()
    if op.rank() == 1:
        op.fail("needs a dimension of channels.")
    return (op.point(lambda x, f, s: x * f.cast(dtype) + s.cast(dtype), op.x(), factor, shift),)


def normalise(op: Op, value: str, axes: tuple[int, ...], epsilon: float) -> tuple[str, str, str]:
    """(x - mean) / sqrt(variance + epsilon) over ``axes``; also the mean and the reciprocal root."""
    count = float(prod(op.b.shape(value)[a] for a in axes))
    mean = op.reduce("sum", value, axes, post=lambda s: s / count)
    centred = op.point(lambda x, m: x - m, value, mean)
    root = op.reduce("sum", centred, axes, term=lambda d: d * d, post=lambda s: (s / count + epsilon).op("rsqrt"))
    return op.point(lambda d, r: d * r, centred, root), mean, root


def _layer_norm(op: Op) -> tuple[str | None, ...]:
    axis = op.axis(op.whole("axis", -1), op.rank())
    axes = tuple(range(axis, op.rank()))
    dtype = op.dtype()
    wide = op.cast(op.x(), DType.F32) if dtype == DType.F16 else op.x()
    count = float(prod(op.shape()[a] for a in axes))
    mean = op.reduce("sum", wide, axes, post=lambda s: s / count)
    centred = op.point(lambda x, m: x - m, wide, mean)
    epsilon = op.real("epsilon", 1e-5)
    root = op.reduce("sum", centred, axes, term=lambda d: d * d, post=lambda s: (s / count + epsilon).op("rsqrt"))
    if op.has(2):
        done = op.point(lambda d, r, s, b: (d * r).cast(dtype) * s + b, centred, root, op.x(1), op.x(2))
    else:
        done = op.point(lambda d, r, s: (d * r).cast(dtype) * s, centred, root, op.x(1))
    return done, mean, root


def _instance_norm(op: Op) -> str:
    done, _, _ = normalise(op, op.x(), tuple(range(2, op.rank())), op.real("epsilon", 1e-5))
    ones = [1] * (op.rank() - 2)
    scale, bias = (op.b.reshape(op.x(i), (*op.shape(i), *ones)) for i in (1, 2))
    return op.point(lambda x, s, b: x * s + b, done, scale, bias)


def _group_norm(op: Op) -> str:
    shape, groups = op.shape(), op.whole("num_groups")
    op.need(groups > 0 and shape[1] % groups == 0, f"{shape[1]} channels do not make {groups} groups.")
    split = op.b.reshape(op.x(), (shape[0], groups, prod(shape[1:]) // groups))
    done, _, _ = normalise(op, split, (2,), op.real("epsilon", 1e-5))
    ones = [1] * (len(shape) - 2)
    if op.shape(1)[0] == groups and groups != shape[1]:  # operator set 18: one scale per group
        done = op.point(lambda x, s, b: x * s + b, done, *(op.b.reshape(op.x(i), (groups, 1)) for i in (1, 2)))
        return op.b.reshape(done, shape)
    scale, bias = (op.b.reshape(op.x(i), (shape[1], *ones)) for i in (1, 2))
    return op.point(lambda x, s, b: x * s + b, op.b.reshape(done, shape), scale, bias)


def _rms_norm(op: Op) -> str:
    axis = op.axis(op.whole("axis", -1), op.rank())
    axes = tuple(range(axis, op.rank()))
    count, epsilon, dtype = float(prod(op.shape()[a] for a in axes)), op.real("epsilon", 1e-5), op.dtype()
    wide = op.cast(op.x(), DType.F32) if dtype == DType.F16 else op.x()
    root = op.reduce("sum", wide, axes, term=lambda x: x * x, post=lambda s: (s / count + epsilon).op("rsqrt"))
    return op.point(lambda x, r, s: (x * r).cast(dtype) * s, wide, root, op.x(1))


def _mvn(op: Op) -> str:
    axes = op.axes(op.wholes("axes", [0, 2, 3]), op.rank())
    count = float(prod(op.shape()[a] for a in axes))
    mean = op.reduce("sum", op.x(), axes, post=lambda s: s / count)
    centred = op.point(lambda x, m: x - m, op.x(), mean)
    root = op.reduce("sum", centred, axes, term=lambda d: d * d, post=lambda s: (s / count).op("sqrt") + 1e-9)
    return op.point(lambda d, r: d / r, centred, root)


def _lp_norm(op: Op) -> str:
    axis, p = op.axis(op.whole("axis", -1), op.rank()), op.whole("p", 2)
    op.need(p in (1, 2), f"the norm {p} is not defined.")
    squared = p == 2
    norm = op.reduce(
        "sum",
        op.x(),
        (axis,),
        term=(lambda x: x * x) if squared else (lambda x: x.op("abs")),
        post=(lambda s: s.op("sqrt")) if squared else None,
    )
    return op.point(lambda x, n: select(n.op("eq", 0.0), 0.0, x / n), op.x(), norm)


TABLE: dict[str, Rule] = {
    "ReduceSum": _reduce("sum"),
    "ReduceMax": _reduce("max"),
    "ReduceMin": _reduce("min"),
    "ReduceProd": _reduce("prod"),
    "ReduceSumSquare": _reduce("sum", lambda x: x * x),
    "ReduceL1": _reduce("sum", lambda x: x.op("abs")),
    "ReduceL2": _reduce(
        "sum",
        lambda x: x * x,
        lambda s: s.op("sqrt") if s.dtype.is_float else s.cast(DType.F64).op("sqrt").cast(s.dtype),
    ),
    "ReduceLogSum": _reduce("sum", None, lambda s: s.op("log")),
    "ReduceMean": _reduce_mean,
    "ReduceLogSumExp": _log_sum_exp,
    "ArgMax": lambda op: _arg(op, "max"),
    "ArgMin": lambda op: _arg(op, "min"),
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
    "Hardmax": _hardmax,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
    "GroupNormalization": _group_norm,
    "RMSNormalization": _rms_norm,
    "MeanVarianceNormalization": _mvn,
    "LpNormalization": _lp_norm,
}
