"""Operators of ``com.microsoft`` on floats: what optimisers for transformers fuse, taken apart again.

Their meaning is that of ONNX Runtime's contrib operators (its document ContribOperators).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from compiler.frontend.op import Lowered, Op, Rule
from compiler.frontend.operators.derived import derived, plain, single
from compiler.frontend.operators.elementwise import gelu
from compiler.frontend.operators.reduction import normalise
from compiler.ir import DType, Term

ACTIVATIONS: dict[str, tuple[str, ...]] = {
    "Relu": (),
    "Tanh": (),
    "Sigmoid": (),
    "Softplus": (),
    "Softsign": (),
    "LeakyRelu": ("alpha",),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "Selu": ("alpha", "gamma"),
    "ThresholdedRelu": ("alpha",),
    "Clip": ("min", "max"),
}


def _fused_matmul(op: Op) -> str:
    done = plain(op, "MatMul", *(_turned(op, i, side) for i, side in enumerate("AB")))
    alpha = op.real("alpha", 1.0)
    return op.point(lambda x: x * alpha, done) if alpha != 1.0 else done


def _turned(op: Op, i: int, side: str) -> str:
    """A factor as a batch of matrices: its first dimension may lie outside the batch, its last two may be turned."""
    rank = op.rank(i)
    order = list(range(rank))
    if rank > 1 and op.whole(f"transBatch{side}", 0):
        order = [*order[1:-1], 0, rank - 1]
    if rank > 1 and op.whole(f"trans{side}", 0):
        order[-2:] = order[:-3:-1]
    return op.x(i) if order == list(range(rank)) else op.transpose(op.x(i), order)


def activated(op: Op, value: str, parameters: Mapping[str, float] | Sequence[float]) -> str:
    """The activation that the attribute names; parameters by name or in their order."""
    name = op.text("activation", "")
    if not name:
        return value
    op.need(name in ACTIVATIONS, f"ends in {name!r}; offered are {', '.join(ACTIVATIONS)}.")
    names = ACTIVATIONS[name]
    if isinstance(parameters, Mapping):
        given = {n: parameters[n] for n in names if n in parameters}
    else:
        given = dict(zip(names, parameters, strict=False))
    if name == "Clip":
        low, high = given.get("min", -math.inf), given.get("max", math.inf)
        return op.point(lambda x: x.op("max", low).op("min", high), value)
    return plain(op, name, value, **given)


def _fused_conv(op: Op) -> str:
    """A convolution, what is added to it, and an activation."""
    done = single(derived(op, "Conv", *op.inputs[:3]))
    if op.has(3):
        done = op.point(lambda x, z: x + z, done, op.x(3))
    return activated(op, done, op.reals("activation_params"))


def _fused_gemm(op: Op) -> str:
    return activated(op, single(derived(op, "Gemm", *op.inputs)), _parameters(op))


def _parameters(op: Op) -> dict[str, float]:
    names = [n for n in ("alpha", "beta", "gamma") if f"activation_{n}" in op.attributes]
    return {n: op.real(f"activation_{n}") for n in names}


def _fused_matmul_activation(op: Op) -> str:
    return activated(op, _fused_matmul(op), _parameters(op))


def _skip_layer_norm(op: Op) -> tuple[str | None, ...]:
    """LayerNormalization of input + skip (+ bias)."""
    total = op.point(lambda a, b: a + b, op.x(0), op.x(1))
    if op.has(4):
        total = op.point(lambda a, b: a + b, total, op.x(4))
    done, mean, root = layer_norm(op, total, op.x(2), op.optional(3), op.real("epsilon", 1e-12))
    return done, mean, root, total


def layer_norm(op: Op, value: str, scale: str, bias: str | None, epsilon: float) -> tuple[str, str, str]:
    """Normalised over the last axis, scaled and moved; the mean and the reciprocal root."""
    done, mean, root = normalise(op, value, (len(op.b.shape(value)) - 1,), epsilon)
    if bias is None:
        return op.point(lambda x, s: x * s, done, scale), mean, root
    return op.point(lambda x, s, b: x * s + b, done, scale, bias), mean, root


def _skip_rms_norm(op: Op) -> tuple[str | None, ...]:
    total = op.point(lambda a, b: a + b, op.x(0), op.x(1))
    if op.has(3):
        total = op.point(lambda a, b: a + b, total, op.x(3))
    return _rms(op, total, op.x(2)), None, None, total


def _rms(op: Op, value: str, scale: str) -> str:
    axis, epsilon = len(op.b.shape(value)) - 1, op.real("epsilon", 1e-5)
    count = float(op.b.shape(value)[axis])
    root = op.reduce("sum", value, (axis,), term=lambda x: x * x, post=lambda s: (s / count + epsilon).op("rsqrt"))
    return op.point(lambda x, r, s: x * r * s, value, root, scale)


def _embed_layer_norm(op: Op) -> tuple[str | None, ...]:
    """Word, position and segment embeddings added up and normalised; the count of the mask's ones."""
    ids = op.x(0)
    batch, length = op.b.shape(ids)
    total = op.gather(op.x(2), 0, ids)
    places = op.gather(op.x(3), 0, op.x(8)) if op.has(8) else op.slice(op.x(3), 0, 0, length)
    total = op.point(lambda a, b: a + b, total, places)
    if op.has(1) and op.has(4):
        total = op.point(lambda a, b: a + b, total, op.gather(op.x(4), 0, op.x(1)))
    done, _, _ = layer_norm(op, total, op.x(5), op.x(6), op.real("epsilon", 1e-12))
    if op.has(7):
        ones = op.point(lambda m: m.op("ne", 0).cast(DType.I32), op.x(7))
        count = op.reduce("sum", ones, (1,), keep=False)
    else:
        count = op.const(np.zeros(batch), DType.I32)
    return done, count, total


def _gelu(op: Op) -> str:
    return op.point(gelu, op.x())


def _bias_gelu(op: Op) -> str:
    return op.point(lambda x, b: gelu(x + b), op.x(0), op.x(1))


def _fast_gelu(op: Op) -> str:
    if op.has(1):
        return op.point(lambda x, b: gelu(x + b, "tanh"), op.x(0), op.x(1))
    return op.point(lambda x: gelu(x, "tanh"), op.x(0))


def _quick_gelu(op: Op) -> str:
    alpha = op.real("alpha", 1.702)
    return op.point(lambda x: x * (x * alpha).op("sigmoid"), op.x())


def _scaled_silu(op: Op) -> str:
    dtype = op.dtype()
    scale = op.b.reshape(op.x(1), ()) if op.has(1) else op.const(op.real("alpha", 1.0), DType.F32)
    moved = op.point(lambda x, a: (x.cast(DType.F32) * a.cast(DType.F32)).cast(dtype), op.x(), scale)
    return op.point(lambda x: x * x.op("sigmoid"), moved)


def _gated_rms_norm(op: Op) -> str:
    """Runs of as many elements as the scale has, each over the root of its mean square, times a gate."""
    size, shape, dtype = op.shape(1)[0], op.shape(), op.dtype()
    op.need(size > 0 and shape[-1] % size == 0, f"{shape[-1]} elements do not make runs of {size}.")
    kind, epsilon = op.text("activation", "silu"), op.real("epsilon", 1e-5)
    op.need(kind in ("silu", "swish", "sigmoid"), f"has the gate {kind!r}.")
    runs = op.cast(op.b.reshape(op.x(), (*shape[:-1], shape[-1] // size, size)), DType.F32)
    last, count = len(shape), float(size)
    root = op.reduce("sum", runs, (last,), term=lambda x: x * x, post=lambda s: (s / count + epsilon).op("rsqrt"))
    normal = op.point(lambda x, r, w: x * r * w.cast(DType.F32), runs, root, op.x(1))

    def gated(x: Term, z: Term) -> Term:
        wide = z.cast(DType.F32)
        gate = wide.op("sigmoid")
        return (x * (gate if kind == "sigmoid" else wide * gate)).cast(dtype)

    return op.point(gated, op.b.reshape(normal, shape), op.x(2))


def _same(kind: str) -> Rule:
    """An operator that the standard has taken up since."""
    return lambda op: derived(op, kind, *op.inputs)


def _expand_dims(op: Op) -> str:
    axis = op.axis(int(op.known(1, "The axis").reshape(-1)[0]), op.rank() + 1)
    return op.b.reshape(op.x(), (*op.shape()[:axis], 1, *op.shape()[axis:]))


def _range(op: Op) -> Lowered:
    sides = [op.b.reshape(op.x(i), ()) for i in range(2)]
    step = op.b.reshape(op.x(2), ()) if op.has(2) else op.const(1, op.dtype())
    return derived(op, "Range", *sides, step)


TABLE: dict[str, Rule] = {
    "FusedMatMul": _fused_matmul,
    "TransposeMatMul": _fused_matmul,
    "FusedMatMulActivation": _fused_matmul_activation,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "SkipLayerNormalization": _skip_layer_norm,
    "SkipSimplifiedLayerNormalization": _skip_rms_norm,
    "SimplifiedLayerNormalization": lambda op: _rms(op, op.x(0), op.x(1)),
    "GatedRMSNorm": _gated_rms_norm,
    "EmbedLayerNormalization": _embed_layer_norm,
    "Gelu": _gelu,
    "BiasGelu": _bias_gelu,
    "FastGelu": _fast_gelu,
    "QuickGelu": _quick_gelu,
    "ScaledSiLU": _scaled_silu,
    "GatedAdd": lambda op: op.point(lambda x, y, g: x + y * g, op.x(0), op.x(1), op.x(2)),
    "Trilu": _same("Trilu"),
    "GatherND": _same("GatherND"),
    "GridSample": _same("GridSample"),
    "Pad": _same("Pad"),
    "ExpandDims": _expand_dims,
    "Range": _range,
}
