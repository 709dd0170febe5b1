"""Draws of operators that add up: reductions, products, convolutions, pools, normalisations, quantised forms."""

from __future__ import annotations

import numpy as np

from tests.compiler.odd.draft import FLOATS, Draft, Unfit

REDUCED = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")


def reduced(d: Draft) -> None:
    kind = d.one(*REDUCED)
    whole = kind in ("Sum", "Max", "Min", "Prod", "SumSquare") and d.chance(0.25)
    a = d.value(dtypes=(np.int32, np.int64) if whole else (np.float32, np.float32, np.float64, np.float16))
    if kind == "LogSum":
        (a,) = d.node("Abs", [a])
    rank = d.like(a).ndim
    axes = d.axes(rank)
    if d.opset < 11:
        axes = [i % rank for i in axes]
    given = {"keepdims": d.whole(0, 1)} if d.chance(0.8) else {}
    if d.opset < (13 if kind == "Sum" else 18):
        d.node(f"Reduce{kind}", [a], **({"axes": axes} if axes else {}), **given)
        return
    if d.chance(0.3):
        given["noop_with_empty_axes"] = d.whole(0, 1)
    d.node(f"Reduce{kind}", [a, d.const(np.array(axes, np.int64))] if axes or d.chance() else [a], **given)


def arg(d: Draft) -> None:
    a = d.value(lambda x: x.ndim > 0 and x.size > 0, dtypes=(np.float32, np.float64, np.int32, np.int8, np.uint8))
    rank = d.like(a).ndim
    if not rank:
        raise Unfit("no axis")
    axis = d.axis(rank) if d.opset >= 11 else d.whole(0, rank - 1)
    given = {"select_last_index": d.whole(0, 1)} if d.opset >= 12 and d.chance() else {}
    d.node(d.one("ArgMax", "ArgMin"), [a], axis=axis, keepdims=d.whole(0, 1), **given)


def soft(d: Draft) -> None:
    a = d.value(lambda x: x.ndim > 0)
    rank = d.like(a).ndim
    if not rank:
        raise Unfit("no axis")
    axis = {"axis": d.axis(rank) if d.opset >= 11 else d.whole(0, rank - 1)} if d.chance(0.8) else {}
    d.node(d.one("Softmax", "LogSoftmax", "Hardmax"), [a], **axis)


def running(d: Draft) -> None:
    a = d.value(lambda x: x.ndim > 0, dtypes=(np.float32, np.float64, np.int32, np.int64))
    rank = d.like(a).ndim
    if not rank:
        raise Unfit("no axis")
    kind = "CumProd" if d.opset >= 26 and d.chance() else "CumSum"
    d.node(kind, [a, d.const(np.array(d.axis(rank), np.int64))], exclusive=d.whole(0, 1), reverse=d.whole(0, 1))


def matmul(d: Draft) -> None:
    m, k, n = (d.one(0, 1, 2, 3, 5, 7, 9) if d.chance(0.1) else d.whole(1, 9) for _ in range(3))
    batch = d.shape(d.whole(0, 2), most=3)
    dtype = d.one(*FLOATS, np.int32) if d.opset >= 9 else np.float32
    known = [x for x in d.made if d.like(x).dtype == dtype and d.like(x).ndim > 1 and 0 < d.like(x).shape[-1] < 20]
    if known and d.chance(0.6):
        a = str(d.one(*known))
        *lead, m, k = d.like(a).shape
        batch = tuple(lead)
    else:
        a = d.input(d.array((k,) if d.chance(0.1) else (*batch, m, k), dtype))
    other = tuple(1 if d.chance(0.3) else x for x in batch)[d.whole(0, len(batch)) :]
    b = d.either(d.array((k,) if d.chance(0.1) else (*other, k, n), dtype))
    d.node("MatMul", [a, b])


def gemm(d: Draft) -> None:
    m, k, n = (d.whole(1, 9) for _ in range(3))
    ta, tb = d.whole(0, 1), d.whole(0, 1)
    dtype = d.one(*FLOATS)
    a = d.input(d.array((k, m) if ta else (m, k), dtype))
    b = d.either(d.array((n, k) if tb else (k, n), dtype))
    c = d.either(d.array(d.one((), (n,), (1, n), (m, 1), (m, n), (1,)), dtype)) if d.opset < 11 or d.chance(0.8) else ""
    given = {name: round(float(d.rng.normal()), 2) for name in ("alpha", "beta") if d.chance()}
    d.node("Gemm", [a, b, c] if c else [a, b], transA=ta, transB=tb, **given)


def einsum(d: Draft) -> None:
    sizes = {c: d.whole(1, 4) for c in "abcde"}
    count = d.one(1, 2, 2, 3)
    words = ["".join(str(c) for c in d.rng.permutation(list("abcde"))[: d.whole(1, 3)]) for _ in range(count)]
    letters = sorted(set("".join(words)))
    out = "".join(str(c) for c in d.rng.permutation(letters)[: d.whole(0, len(letters))])
    equation = ",".join(words) + (f"->{out}" if d.chance(0.8) else "")
    parts = [d.either(d.array([sizes[c] for c in w], np.float32)) for w in words]
    d.node("Einsum", parts, equation=equation)


def _windows(
    d: Draft, rank: int, size: tuple[int, ...], *, dilated: bool = True
) -> tuple[list[int], dict[str, object]]:
    kernel = [d.whole(1, min(3, n + 1)) for n in size]
    given: dict[str, object] = {}
    if d.chance(0.6):
        given["strides"] = [d.whole(1, 3) for _ in range(rank)]
    if dilated and d.chance(0.3):
        given["dilations"] = [d.whole(1, 2) for _ in range(rank)]
    if d.chance(0.2):
        given["auto_pad"] = d.one("SAME_UPPER", "SAME_LOWER", "VALID")
        given.pop("dilations", None)
    elif d.chance(0.7):
        given["pads"] = [d.whole(0, k - 1) if k > 1 else 0 for k in kernel * 2]
    return kernel, given


def conv(d: Draft) -> None:
    rank, groups = d.one(1, 2, 2, 3), d.one(1, 1, 2, 3)
    size = tuple(d.whole(2, 7) for _ in range(rank))
    cin, cout = groups * d.whole(1, 3), groups * d.whole(1, 3)
    known = [n for n in d.made if d.like(n).dtype == np.float32 and d.like(n).ndim == rank + 2 and d.like(n).size]
    if known and d.chance():
        a = str(d.one(*known))
        cin, size = d.like(a).shape[1], d.like(a).shape[2:]
        groups = d.one(*[g for g in (1, 2, 3, cin) if cin % g == 0])
        cout = groups * d.whole(1, 2)
    else:
        a = d.input(d.array((d.one(1, 1, 2), cin, *size)))
    kernel, given = _windows(d, rank, size)
    w = d.either(d.array((cout, cin // groups, *kernel)))
    bias = [d.either(d.array((cout,)))] if d.chance() else []
    if d.chance(0.3):
        given["kernel_shape"] = kernel
    d.node("Conv", [a, w, *bias], group=groups, **given)


def conv_back(d: Draft) -> None:
    rank, groups = d.one(1, 2, 2), d.one(1, 1, 2)
    size = tuple(d.whole(1, 5) for _ in range(rank))
    cin, cout = groups * d.whole(1, 3), d.whole(1, 3)
    a = d.input(d.array((d.one(1, 1, 2), cin, *size)))
    kernel = [d.whole(1, 3) for _ in range(rank)]
    given: dict[str, object] = {"strides": [d.whole(1, 3) for _ in range(rank)]}
    way = d.whole(0, 3)
    if way == 1:
        given["pads"] = [d.whole(0, 1) for _ in range(2 * rank)]
    elif way == 2:
        given["auto_pad"] = d.one("SAME_UPPER", "SAME_LOWER")
    elif way == 3:
        given["dilations"] = [d.whole(1, 2) for _ in range(rank)]
    if d.chance(0.3):
        given["output_padding"] = [d.whole(0, s - 1) for s in given["strides"]]  # type: ignore[attr-defined]
    bias = [d.either(d.array((groups * cout,)))] if d.chance() else []
    d.node("ConvTranspose", [a, d.either(d.array((cin, cout, *kernel))), *bias], group=groups, **given)


def pool(d: Draft) -> None:
    rank = d.one(1, 2, 2, 3)
    size = tuple(d.whole(2, 7) for _ in range(rank))
    kind = d.one("MaxPool", "AveragePool", "LpPool")
    known = [n for n in d.made if d.like(n).dtype == np.float32 and d.like(n).ndim == rank + 2 and d.like(n).size]
    a = str(d.one(*known)) if known and d.chance() else d.input(d.array((d.one(1, 2), d.whole(1, 3), *size)))
    wide = d.opset >= {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[kind]
    kernel, given = _windows(d, rank, d.like(a).shape[2:], dilated=wide)
    if d.chance(0.4) and d.opset >= {"MaxPool": 10, "AveragePool": 10, "LpPool": 18}[kind]:
        given["ceil_mode"] = 1
    if kind == "AveragePool" and d.chance():
        given["count_include_pad"] = 1
    if kind == "LpPool" and d.chance():
        given["p"] = d.whole(1, 3)
    if kind == "MaxPool" and d.chance(0.3) and d.opset >= 8:
        if d.chance(0.3):
            given["storage_order"] = 1
        d.node(kind, [a], 2, kernel_shape=kernel, **given)
        return
    d.node(kind, [a], kernel_shape=kernel, **given)


def pool_all(d: Draft) -> None:
    a = d.value(lambda x: x.ndim > 2 and x.size > 0, rank=d.one(3, 4))
    kind = d.one("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
    d.node(kind, [a], **({"p": d.whole(1, 3)} if kind == "GlobalLpPool" and d.chance() else {}))


def normal(d: Draft) -> None:
    kinds = ["BatchNormalization", "InstanceNormalization", "LRN", "LpNormalization", "MeanVarianceNormalization"]
    kinds += ["LayerNormalization"] if d.opset >= 17 else []
    kinds += ["GroupNormalization"] if d.opset >= 21 else []
    kinds += ["RMSNormalization"] if d.opset >= 23 else []
    kind = d.one(*kinds)
    rank = (
        4
        if kind in ("MeanVarianceNormalization", "LRN")
        else d.one(3, 4, 2)
        if kind == "LpNormalization"
        else d.one(3, 4)
    )
    a = d.value(lambda x: x.size > 0, rank=rank, dtypes=[np.float32])
    shape = d.like(a).shape
    if not d.like(a).size:
        raise Unfit("nothing to normalise")
    eps = {"epsilon": d.one(1e-5, 1e-3, 0.1)} if d.chance(0.7) else {}
    per = [d.array((shape[1],)) for _ in range(3)]
    if kind == "BatchNormalization":
        var = np.abs(d.array((shape[1],))) + 0.1
        d.node(kind, [a, *(d.either(x) for x in (*per, var.astype(np.float32)))], **eps)
    elif kind == "InstanceNormalization":
        d.node(kind, [a, d.either(per[0]), d.either(per[1])], **eps)
    elif kind == "GroupNormalization":
        groups = d.one(*[g for g in range(1, shape[1] + 1) if shape[1] % g == 0])
        d.node(kind, [a, d.either(per[0]), d.either(per[1])], num_groups=groups, **eps)
    elif kind == "LRN":
        d.node(kind, [a], size=d.one(1, 2, 3, 4), alpha=0.3, beta=d.one(0.5, 0.75), bias=d.one(1.0, 2.0))
    elif kind == "LpNormalization":
        power = d.whole(1, 2)
        if power == 1:  # the reference adds signed values then
            (a,) = d.node("Abs", [a])
        d.node(kind, [a], axis=d.axis(rank), p=power)
    elif kind == "MeanVarianceNormalization":
        d.node(kind, [a], **({"axes": d.axes(rank, 1)} if d.chance() else {}))
    else:
        axis = d.axis(rank)
        inner = shape[axis % rank :]
        bias = [d.either(d.array(inner))] if kind == "LayerNormalization" and d.chance(0.7) else []
        d.node(kind, [a, d.either(d.array(inner)), *bias], axis=axis, **eps)


def quantised(d: Draft) -> None:
    kind = d.one(
        "QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger", "QLinearMatMul"
    )
    dtype = d.one(np.uint8, np.int8)
    if kind == "DynamicQuantizeLinear":
        d.node(kind, [d.value(lambda x: x.size > 0, dtypes=[np.float32])], 3)
    elif kind in ("QuantizeLinear", "DequantizeLinear"):
        rank = d.whole(1, 4)
        axis = d.axis(rank) if d.opset >= 13 and d.chance() else None
        source = (
            d.value(rank=rank, dtypes=[np.float32]) if kind == "QuantizeLinear" else d.value(rank=rank, dtypes=[dtype])
        )
        if kind == "DequantizeLinear":
            dtype = d.like(source).dtype.type
        n = () if axis is None else (d.like(source).shape[axis],)
        scale = d.const((np.abs(d.array(n)) / 4 + 0.05).astype(np.float32))
        zero = [d.const(d.array(n, dtype))] if d.chance(0.7) or kind == "DequantizeLinear" else []
        d.node(kind, [source, scale, *zero], **({} if axis is None else {"axis": axis}))
    elif kind == "ConvInteger":
        a = d.input(d.array((1, d.whole(1, 3), 5, 5), np.uint8))
        w = d.either(d.array((d.whole(1, 4), d.like(a).shape[1], 2, 2), dtype))
        zeros = [d.const(d.array((), np.uint8)), d.const(d.array((), dtype))][: d.whole(0, 2)]
        d.node(kind, [a, w, *zeros], **({"pads": [1, 0, 1, 1]} if d.chance() else {}))
    else:
        m, k, n = (d.whole(1, 6) for _ in range(3))
        a, b = d.input(d.array((m, k), np.uint8)), d.either(d.array((k, n), dtype))
        za, zb = d.const(d.array((), np.uint8)), d.const(d.array((n,) if d.chance(0.4) else (), dtype))
        if kind == "MatMulInteger":
            d.node(kind, [a, b, *[za, zb][: d.whole(0, 2)]])
            return
        sb = np.asarray(np.abs(d.array(d.like(zb).shape)) / 4 + 0.1, np.float32)
        scales = [d.const(np.float32(0.11)), d.const(sb), d.const(np.float32(0.37))]
        d.node(kind, [a, scales[0], za, b, scales[1], zb, scales[2], d.const(d.array((), dtype))])


def determinant(d: Draft) -> None:
    n = d.whole(1, 4)
    d.node("Det", [d.input(d.array((*d.shape(d.whole(0, 2), most=3), n, n)))])


def whole_sums(d: Draft) -> None:
    """Sums of narrow whole numbers, which wrap around."""
    a = d.input(d.rng.integers(0, 120, d.shape(d.whole(1, 3))).astype(d.one(np.int8, np.uint8, np.int32)))
    if d.like(a).dtype == np.int32:
        d.node("ReduceSum", [a], keepdims=0)
    else:
        d.node(d.one("Add", "Mul", "Sub"), [a, a])


MAKERS = [
    reduced,
    reduced,
    arg,
    soft,
    running,
    matmul,
    matmul,
    gemm,
    einsum,
    conv,
    conv,
    conv_back,
    pool,
    pool,
    pool_all,
    normal,
    normal,
    quantised,
    quantised,
    determinant,
    whole_sums,
]
