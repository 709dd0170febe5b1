"""Attention, rotary positions, and the losses that trained models are exported with."""

from __future__ import annotations

import math

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.frontend.operators.reduction import softmax
from compiler.ir import DType, Term, index, select

_INF = math.inf


def _heads(op: Op, i: int, count: int) -> str:
    """Input i as [batch, heads, length, size]."""
    shape = op.shape(i)
    if len(shape) == 4:
        return op.x(i)
    op.need(
        len(shape) == 3 and count > 0 and shape[2] % count == 0, f"{list(shape)} does not split into {count} heads."
    )
    return op.transpose(op.b.reshape(op.x(i), (*shape[:2], count, shape[2] // count)), (0, 2, 1, 3))


def _attention(op: Op) -> tuple[str | None, ...]:
    flat = op.rank() == 3
    q = _heads(op, 0, op.whole("q_num_heads", 0))
    k, v = (_heads(op, i, op.whole("kv_num_heads", 0)) for i in (1, 2))
    past = 0
    if op.has(4) and op.has(5):
        past = op.shape(4)[2]
        k, v = op.b.join([op.x(4), k], 2), op.b.join([op.x(5), v], 2)
    batch, heads, length, size = op.b.shape(q)
    groups = op.b.shape(k)[1]
    total = op.b.shape(k)[2]
    op.need(heads % groups == 0, f"{heads} query heads for {groups} key heads.")
    grouped = op.b.reshape(q, (batch, groups, heads // groups, length, size))
    scores = op.contract("bkgqd,bksd->bkgqs", grouped, k)
    scores = op.b.reshape(scores, (batch, heads, length, total))
    scale, cap = op.real("scale", 1 / math.sqrt(size)), op.real("softcap", 0.0)
    scores = op.point(lambda s: s * scale, scores)
    if cap > 0:
        scores = op.point(lambda s: (s / cap).op("tanh") * cap, scores)
    masked = _masked(op, scores, past)
    weights = _guarded_softmax(op, masked)
    mode = op.whole("qk_matmul_output_mode", 0)
    shown = {0: scores, 1: scores, 2: masked, 3: weights}.get(mode) if op.outputs > 3 else None
    weights = op.b.reshape(weights, (batch, groups, heads // groups, length, total))
    mixed = op.b.reshape(op.contract("bkgqs,bksd->bkgqd", weights, v), (batch, heads, length, op.b.shape(v)[3]))
    if flat:
        mixed = op.b.reshape(op.transpose(mixed, (0, 2, 1, 3)), (batch, length, heads * op.b.shape(v)[3]))
    return mixed, k, v, shown


def _masked(op: Op, scores: str, past: int) -> str:
    """Scores of what may not be seen as minus infinity, given masks added."""
    batch, _, length, total = op.b.shape(scores)
    left, right = op.whole("left_window_size", -1), op.whole("right_window_size", -1)
    causal = bool(op.whole("is_causal", 0))
    if op.has(3):
        mask = op.x(3)
        missing = total - op.b.shape(mask)[-1]
        if missing > 0:
            dtype = op.b.dtype(mask)
            pad = np.full((*op.b.shape(mask)[:-1], missing), 0 if dtype == DType.BOOL else -_INF)
            mask = op.b.join([mask, op.const(pad, dtype)], len(op.b.shape(mask)) - 1)
        if op.b.dtype(mask) == DType.BOOL:
            scores = op.point(lambda s, m: select(m, s, -_INF), scores, mask)
        else:
            scores = op.point(lambda s, m: s + m, scores, mask)
    offset = op.const(past, DType.I64)
    if op.has(6):
        lengths = op.b.reshape(op.cast(op.x(6), DType.I64), (batch, 1, 1, 1))
        scores = op.point(lambda s, n: select(index(3).op("lt", n), s, -_INF), scores, lengths)
        offset = op.point(lambda n: n - length, lengths)

    def within(s: Term, first: Term) -> Term:
        here = index(2) + first
        if causal:
            s = select(index(3).op("le", here), s, -_INF)
        if left >= 0:
            s = select(index(3).op("ge", here - left), s, -_INF)
        if right >= 0:
            s = select(index(3).op("le", here + right), s, -_INF)
        return s

    return op.point(within, scores, offset) if causal or left >= 0 or right >= 0 else scores


def _guarded_softmax(op: Op, scores: str) -> str:
    """Softmax over the last axis in which a row that sees nothing becomes zero."""
    axis = len(op.b.shape(scores)) - 1
    windows = {"left_window_size", "right_window_size"} & set(op.attributes)
    if not (op.has(3) or op.has(6) or op.whole("is_causal", 0) or windows):
        return softmax(op, scores, axis)
    top = op.reduce("max", scores, (axis,), post=lambda m: select(m.op("eq", -_INF), 0.0, m))
    powers = op.point(lambda s, m: (s - m).op("exp"), scores, top)
    total = op.reduce("sum", powers, (axis,), post=lambda t: select(t.op("eq", 0.0), 1.0, t))
    return op.point(lambda p, t: p / t, powers, total)


def _rotary(op: Op) -> str:
    """The first elements of every head, or all of them, turned by angles that depend on their position."""
    shape = op.shape()
    flat = len(shape) == 3
    if flat:
        heads = op.whole("num_heads")
        op.need(heads > 0 and shape[2] % heads == 0, f"{shape[2]} elements do not make {heads} heads.")
        x = op.b.reshape(op.x(), (*shape[:2], heads, shape[2] // heads))
    else:
        x = op.transpose(op.x(), (0, 2, 1, 3))
    size = op.b.shape(x)[3]
    turned = op.whole("rotary_embedding_dim", 0) or size
    cos, sin = (op.gather(op.x(i), 0, op.x(3)) if op.has(3) else op.x(i) for i in (1, 2))
    cos, sin = (op.b.reshape(c, (*op.b.shape(c)[:-1], 1, op.b.shape(c)[-1])) for c in (cos, sin))
    op.need(turned <= size and op.b.shape(cos)[-1] * 2 == turned, "its caches do not fit its head size.")
    done = _turned(op, x, cos, sin)
    if turned < size:
        done = op.b.join([done, op.slice(x, 3, turned, size - turned)], 3)
    return op.b.reshape(done, shape) if flat else op.transpose(done, (0, 2, 1, 3))


def _turned(op: Op, x: str, cos: str, sin: str) -> str:
    """Pairs of the first elements along the last axis of ``x``, each turned by the angle of which these are the cosine and
    sine. A pair lies side by side, or has its second element half of them further."""
    pairs, half = bool(op.whole("interleaved", 0)), op.b.shape(cos)[-1]
    a, b = (op.slice(x, 3, i if pairs else i * half, half, 2 if pairs else 1) for i in (0, 1))
    real = op.point(lambda p, q, c, s: c * p - s * q, a, b, cos, sin)
    imaginary = op.point(lambda p, q, c, s: s * p + c * q, a, b, cos, sin)
    if not pairs:
        return op.b.join([real, imaginary], 3)
    wide = [op.b.reshape(v, (*op.b.shape(v), 1)) for v in (real, imaginary)]
    return op.b.reshape(op.b.join(wide, 4), (*op.b.shape(real)[:3], 2 * half))


def _likelihood(op: Op, log_probabilities: str) -> str:
    """Negative log likelihood of the labels, weighted and reduced."""
    shape, dtype = op.b.shape(log_probabilities), op.b.dtype(log_probabilities)
    labels = op.cast(op.x(1), DType.I64)
    classes = shape[1]
    ignored = op.whole("ignore_index") if "ignore_index" in op.attributes else None
    wide = op.b.reshape(labels, (shape[0], 1, *shape[2:]))
    picked = op.point(lambda x, t: select(t.op("eq", index(1)), x, 0.0), log_probabilities, wide)
    loss = op.reduce("sum", picked, (1,), keep=False, post=lambda x: -x)
    weight = ""
    if op.has(2):
        column = op.b.reshape(op.x(2), (classes, *[1] * (len(shape) - 2)))
        chosen = op.point(lambda w, t: select(t.op("eq", index(1)), w, 0.0), column, wide, shape=shape)
        weight = op.reduce("sum", chosen, (1,), keep=False)
    elif ignored is not None:
        weight = op.const(np.ones(op.b.shape(labels)), dtype)
    if weight and ignored is not None:
        weight = op.point(lambda w, t: select(t.op("eq", ignored), 0.0, w), weight, labels)
    if weight:
        loss = op.point(lambda x, w: x * w, loss, weight)
    how = op.text("reduction", "mean")
    if how == "none":
        return loss
    axes = list(range(len(op.b.shape(loss))))
    total = op.reduce("sum", loss, axes, keep=False)
    if how == "sum":
        return total
    if weight:
        return op.point(lambda x, w: x / w, total, op.reduce("sum", weight, axes, keep=False))
    return op.point(lambda x: x / float(math.prod(op.b.shape(loss))), total)


def _cross_entropy(op: Op) -> tuple[str | None, ...]:
    top = op.reduce("max", op.x(), (1,))
    moved = op.point(lambda x, m: x - m, op.x(), top)
    total = op.reduce("sum", moved, (1,), term=lambda x: x.op("exp"), post=lambda s: s.op("log"))
    logs = op.point(lambda x, s: x - s, moved, total)
    return _likelihood(op, logs), logs


TABLE: dict[str, Rule] = {
    "Attention": _attention,
    "RotaryEmbedding": _rotary,
    "NegativeLogLikelihoodLoss": lambda op: _likelihood(op, op.x()),
    "SoftmaxCrossEntropyLoss": _cross_entropy,
}
