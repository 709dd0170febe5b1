"""Operators of ``com.microsoft`` on floats: what optimisers for transformers fuse, taken apart again.

Their meaning is that of ONNX Runtime's contrib operators (its document ContribOperators).
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
from onnx import helper

from compiler.frontend.op import Lowered, Op, Rule, tupled
from compiler.frontend.operators.elementwise import gelu
from compiler.frontend.operators.reduction import normalise, softmax
from compiler.ir.terms import index, select
from compiler.ir.types import DType


def derived(op: Op, kind: str, *inputs: str | None, **attributes: Any) -> Lowered:
    """A standard operator's result with this operation's attributes, some of them changed."""
    from compiler.frontend.operators import RULES

    other = copy.copy(op)
    other.kind, other.inputs = kind, tuple(inputs)
    made = {name: helper.make_attribute(name, value) for name, value in attributes.items()}
    other.attributes = {**op.attributes, **made}
    return RULES[kind](other)


def single(result: Lowered) -> str:
    """The first result."""
    first = tupled(result)[0]
    assert first is not None
    return first


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


def _attention(op: Op) -> str:
    """Self attention from one projection of queries, keys and values."""
    op.need(not op.has(4) and not op.has(6), "keeps past keys and values.")
    hidden = op.shape(1)[1]
    sizes = op.wholes("qkv_hidden_sizes", [hidden // 3] * 3)
    op.need(len(sizes) == 3 and sum(sizes) == hidden, f"splits {hidden} into {sizes}.")
    projected = single(derived(op, "MatMul", op.x(0), op.x(1)))
    if op.has(2):
        projected = op.point(lambda x, b: x + b, projected, op.x(2))
    return attend(op, projected, sizes, op.optional(3), op.optional(5))


def attend(op: Op, projected: str, sizes: list[int], mask: str | None, added: str | None) -> str:
    """Attention of queries, keys and values that lie side by side in the last axis."""
    batch, length, _ = op.b.shape(projected)
    heads = op.whole("num_heads")
    op.need(heads > 0 and all(n % heads == 0 for n in sizes), f"{sizes} do not make {heads} heads.")
    parts = []
    for n, size in enumerate(sizes):
        part = op.slice(projected, 2, sum(sizes[:n]), size)
        parts.append(op.transpose(op.b.reshape(part, (batch, length, heads, size // heads)), (0, 2, 1, 3)))
    q, k, v = parts
    scale = op.real("scale", 0.0) or 1 / math.sqrt(sizes[0] // heads)
    scores = op.point(lambda s: s * scale, op.contract("bhqd,bhsd->bhqs", q, k))
    if added is not None:
        scores = op.point(lambda s, m: s + m, scores, added)
    scores = _masked(op, scores, mask)
    mixed = op.contract("bhqs,bhsd->bhqd", softmax(op, scores, 3), v)
    return op.b.reshape(op.transpose(mixed, (0, 2, 1, 3)), (batch, length, sizes[2]))


def _masked(op: Op, scores: str, mask: str | None) -> str:
    """Scores with the filter's value added where a mask, a length or causality hides them."""
    hidden = op.real("mask_filter_value", -10_000.0)
    batch, _, _, total = op.b.shape(scores)
    if mask is not None:
        shape = op.b.shape(mask)
        op.need(shape in ((batch, total), (batch,), (batch, 1)), f"has a mask of the shape {list(shape)}.")
        if shape == (batch, total):
            wide = op.b.reshape(mask, (batch, 1, 1, total))
            scores = op.point(lambda s, m: s + select(m.op("gt", 0), 0.0 * s, hidden), scores, wide)
        else:
            wide = op.b.reshape(mask, (batch, 1, 1, 1))
            scores = op.point(
                lambda s, m: s + select(index(3).op("lt", m.cast(DType.I64)), 0.0 * s, hidden), scores, wide
            )
    if op.whole("unidirectional", 0):
        scores = op.point(lambda s: select(index(3).op("le", index(2)), s, -math.inf), scores)
    return scores


def _rotary(op: Op) -> str:
    """The standard's rotary embedding with other places for its inputs; one position per sequence may stand for its first."""
    ids = op.x(1)
    batch, length = op.shape()[0], op.shape()[-2]
    if op.b.shape(ids) in ((1,), ()):
        steps = op.const(np.arange(length), DType.I64)
        ids = op.point(lambda s, f: s + f, steps, op.b.reshape(op.cast(ids, DType.I64), ()))
        ids = op.expand(op.b.reshape(ids, (1, length)), (batch, length))
    op.need(op.b.shape(ids) == (batch, length), f"has positions of the shape {list(op.b.shape(ids))}.")
    if op.rank() == 3 and not op.whole("num_heads", 0):
        size = op.shape(2)[1] * 2
        return single(derived(op, "RotaryEmbedding", op.x(), op.x(2), op.x(3), ids, num_heads=op.shape()[2] // size))
    return single(derived(op, "RotaryEmbedding", op.x(), op.x(2), op.x(3), ids))


TABLE: dict[str, Rule] = {
    "FusedMatMul": _fused_matmul, "FusedConv": _activated("Conv"), "FusedGemm": _activated("Gemm"),
    "SkipLayerNormalization": _skip_layer_norm, "SkipSimplifiedLayerNormalization": _skip_rms_norm,
    "SimplifiedLayerNormalization": lambda op: _rms(op, op.x(0), op.x(1)),
    "EmbedLayerNormalization": _embed_layer_norm, "Gelu": _gelu, "BiasGelu": _bias_gelu, "FastGelu": _fast_gelu,
    "QuickGelu": _quick_gelu, "Attention": _attention, "RotaryEmbedding": _rotary,
}  # fmt: skip
