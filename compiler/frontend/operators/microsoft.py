"""Operators of ``com.microsoft`` on floats: what optimisers for transformers fuse, taken apart again.

Their meaning is that of ONNX Runtime's contrib operators (its document ContribOperators).
"""

from __future__ import annotations

import math

import numpy as np

from compiler.frontend.op import Lowered, Op, Rule
from compiler.frontend.operators.derived import derived, single
from compiler.frontend.operators.elementwise import gelu
from compiler.frontend.operators.reduction import normalise
from compiler.ir.types import DType


def _fused_matmul(op: Op) -> str:
    op.need(not op.whole("transBatchA", 0) and not op.whole("transBatchB", 0), "has its batch in an unusual place.")
    sides = []
    for i, name in enumerate(("transA", "transB")):
        rank = op.rank(i)
        order = (*range(rank - 2), rank - 1, rank - 2)
        sides.append(op.transpose(op.x(i), order) if op.whole(name, 0) and rank > 1 else op.x(i))
    done = single(derived(op, "MatMul", *sides))
    alpha = op.real("alpha", 1.0)
    return op.point(lambda x: x * alpha, done) if alpha != 1.0 else done


def _activated(kind: str) -> Rule:
    """Conv or Gemm with an activation behind it."""

    def rule(op: Op) -> Lowered:
        done = single(derived(op, kind, *op.inputs[:3]))
        name = op.text("activation", "")
        parameters = op.reals("activation_params")
        if not name:
            return done
        op.need(name in ("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid"), f"ends in {name!r}.")
        if name == "Clip":
            low, high = [*parameters, -math.inf, math.inf][:2]
            return op.point(lambda x: x.op("max", low).op("min", high), done)
        named = dict(zip(("alpha", "beta"), parameters, strict=False))
        return derived(op, name, done, **named)

    return rule


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


TABLE: dict[str, Rule] = {
    "FusedMatMul": _fused_matmul, "FusedConv": _activated("Conv"), "FusedGemm": _activated("Gemm"),
    "SkipLayerNormalization": _skip_layer_norm, "SkipSimplifiedLayerNormalization": _skip_rms_norm,
    "SimplifiedLayerNormalization": lambda op: _rms(op, op.x(0), op.x(1)),
    "EmbedLayerNormalization": _embed_layer_norm, "Gelu": _gelu, "BiasGelu": _bias_gelu, "FastGelu": _fast_gelu,
    "QuickGelu": _quick_gelu,
}  # fmt: skip
