"""Attention of ``com.microsoft`` in its forms: Attention, MultiHeadAttention, GroupQueryAttention, and the rotary embedding.

Their meaning is that of ONNX Runtime's contrib operators on a processor without an accelerator (its document ContribOperators).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.frontend.operators.derived import derived, single
from compiler.frontend.operators.reduction import softmax
from compiler.ir import DType, Term, index, select


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values, each [batch, heads, length, size]; keys and values may have fewer heads."""

    q: str
    k: str
    v: str


def split(op: Op, value: str, count: int) -> str:
    """[batch, length, count * size] as [batch, count, length, size]."""
    batch, length, width = op.b.shape(value)
    op.need(count > 0 and width % count == 0, f"{width} elements do not make {count} heads.")
    return op.transpose(op.b.reshape(value, (batch, length, count, width // count)), (0, 2, 1, 3))


def _side_by_side(op: Op, value: str, sizes: list[int]) -> list[str]:
    """Parts of those sizes along the last axis."""
    axis = len(op.b.shape(value)) - 1
    op.need(sum(sizes) == op.b.shape(value)[axis], f"splits {op.b.shape(value)[axis]} into {sizes}.")
    return [op.slice(value, axis, sum(sizes[:n]), size) for n, size in enumerate(sizes)]


def _merged(op: Op, value: str) -> str:
    """[batch, heads, length, size] as [batch, length, heads * size]."""
    batch, heads, length, size = op.b.shape(value)
    return op.b.reshape(op.transpose(value, (0, 2, 1, 3)), (batch, length, heads * size))


def scores_of(op: Op, parts: Heads, added: str | None, cap: float = 0.0) -> str:
    """Scaled products of queries and keys, [batch, query heads, length, total], capped, with a bias added."""
    batch, heads, length, size = op.b.shape(parts.q)
    groups, total = op.b.shape(parts.k)[1:3]
    op.need(groups > 0 and heads % groups == 0, f"{heads} query heads for {groups} key heads.")
    scale = op.real("scale", 0.0) or 1 / math.sqrt(size)
    grouped = op.b.reshape(parts.q, (batch, groups, heads // groups, length, size))
    scores = op.b.reshape(op.contract("bkgqd,bksd->bkgqs", grouped, parts.k), (batch, heads, length, total))
    scores = op.point(lambda s: s * scale, scores)
    if cap > 0:
        scores = op.point(lambda s: (s / cap).op("tanh") * cap, scores)
    return op.point(lambda s, m: s + m, scores, added) if added is not None else scores


def mixed(op: Op, weights: str, values: str) -> str:
    """Values weighed and put side by side again, [batch, length, query heads * size]."""
    batch, heads, length, total = op.b.shape(weights)
    groups, _, size = op.b.shape(values)[1:]
    grouped = op.b.reshape(weights, (batch, groups, heads // groups, length, total))
    done = op.contract("bkgqs,bksd->bkgqd", grouped, values)
    return _merged(op, op.b.reshape(done, (batch, heads, length, size)))


def attend(op: Op, parts: Heads, mask: str | None, added: str | None) -> tuple[str, str]:
    """The mixture of values, and the weights that it was mixed by."""
    weights = softmax(op, _masked(op, scores_of(op, parts, added), mask), 3)
    return mixed(op, weights, parts.v), weights


def _masked(op: Op, scores: str, mask: str | None) -> str:
    """Scores with the filter's value added where a mask, a length or causality hides them."""
    hidden = op.real("mask_filter_value", -10_000.0)
    batch, _, length, total = op.b.shape(scores)
    if mask is not None:
        shape = op.b.shape(mask)
        if shape in ((batch, total), (batch, length, total)):
            wide = op.b.reshape(mask, (batch, 1, *([1] if len(shape) == 2 else []), *shape[1:]))
            scores = op.point(lambda s, m: s + select(m.op("gt", 0), 0.0 * s, hidden), scores, wide)
        elif shape in ((batch,), (batch, 1), (2 * batch,)):
            scores = _bounded(op, scores, mask, hidden)
        else:
            op.fail(f"has a mask of the shape {list(shape)}; give one of {[batch, total]} or {[batch, length, total]}.")
    if op.whole("unidirectional", 0):
        past = total - length
        scores = op.point(lambda s: select(index(3).op("le", index(2) + past), s, -math.inf), scores)
    return scores


def _bounded(op: Op, scores: str, mask: str, hidden: float) -> str:
    """Keys that count per sequence: the place after the last and, behind all of those, the first."""
    batch = op.b.shape(scores)[0]
    flat = op.b.reshape(mask, (-(-math.prod(op.b.shape(mask)) // batch), batch, 1, 1, 1))
    ends = op.b.reshape(op.slice(flat, 0, 0, 1), (batch, 1, 1, 1))

    def cut(s: Term, bound: Term, name: str) -> Term:
        return s + select(index(3).op(name, bound.cast(DType.I64)), 0.0 * s, hidden)

    if op.b.shape(flat)[0] == 1:
        return op.point(lambda s, m: cut(s, m, "lt"), scores, ends)
    starts = op.b.reshape(op.slice(flat, 0, 1, 1), (batch, 1, 1, 1))

    def between(s: Term, end: Term, start: Term) -> Term:
        seen = index(3).op("lt", end.cast(DType.I64)).op("and", index(3).op("ge", start.cast(DType.I64)))
        return s + select(seen, 0.0 * s, hidden)

    return op.point(between, scores, ends, starts)


# -- one projection for all three ------------------------------------------------------------------------------------


def _attention(op: Op) -> tuple[str | None, ...]:
    """Self attention whose projection of queries, keys and values is part of it."""
    hidden = op.shape(1)[1]
    sizes = op.wholes("qkv_hidden_sizes", [hidden // 3] * 3)
    op.need(len(sizes) == 3 and sum(sizes) == hidden, f"splits {hidden} into {sizes}.")
    projected = single(derived(op, "MatMul", op.x(0), op.x(1)))
    if op.has(2):
        projected = op.point(lambda x, b: x + b, projected, op.x(2))
    return attention_of(op, projected, sizes, op.optional(3), op.optional(5), op.optional(4))


def attention_of(
    op: Op, projected: str, sizes: list[int], mask: str | None, added: str | None, past: str | None
) -> tuple[str | None, ...]:
    """Attention of a projection [batch, length, sum(sizes)], and keys and values as [2, batch, heads, total, size]."""
    op.need(not op.whole("do_rotary", 0), "turns its queries itself. Put a RotaryEmbedding before it instead.")
    op.need(not op.whole("past_present_share_buffer", 0), "shares one buffer. Export it with past and present apart.")
    count = op.whole("num_heads")
    parts = Heads(*(split(op, part, count) for part in _side_by_side(op, projected, sizes)))
    if past is not None:
        shape = op.b.shape(past)
        op.need(len(shape) == 5 and shape[0] == 2, f"has a past of the shape {list(shape)}.")
        keys, values = (op.b.reshape(op.slice(past, 0, i, 1), shape[1:]) for i in (0, 1))
        parts = replace(parts, k=op.b.join([keys, parts.k], 2), v=op.b.join([values, parts.v], 2))
    done, _ = attend(op, parts, mask, added)
    if op.outputs < 2:
        return (done,)
    op.need(op.b.shape(parts.k) == op.b.shape(parts.v), "keeps keys and values of different sizes in one tensor.")
    return done, op.b.join([op.b.reshape(v, (1, *op.b.shape(v))) for v in (parts.k, parts.v)], 0)


# -- queries, keys and values apart ----------------------------------------------------------------------------------


def _multi_head(op: Op) -> tuple[str | None, ...]:
    op.need(
        not op.has(8) and not op.has(9),
        "shares one buffer of past keys. Export it with past and present tensors apart.",
    )
    parts = _with_bias(op, op.whole("num_heads"))
    if op.has(6) and op.has(7):
        parts = replace(parts, k=op.b.join([op.x(6), parts.k], 2), v=op.b.join([op.x(7), parts.v], 2))
    done, weights = attend(op, parts, op.optional(4), op.optional(5))
    return done, parts.k, parts.v, weights


def _with_bias(op: Op, count: int) -> Heads:
    """Queries, keys and values, with the bias of their projection."""
    values = _projected(op)
    if op.has(3):
        values = _biased(op, values)
    return Heads(*(x if len(op.b.shape(x)) == 4 else split(op, x, count) for x in values))


def _projected(op: Op) -> list[str]:
    """Queries, keys and values from one, two or three inputs."""
    if not op.has(1):
        op.need(op.rank() == 5 and op.shape()[3] == 3, "has neither keys nor queries, keys and values in one.")
        return [_of_pack(op, 0, i) for i in range(3)]
    if not op.has(2):
        op.need(op.rank(1) == 5 and op.shape(1)[3] == 2, "has neither values nor keys and values in one.")
        return [op.x(0), _of_pack(op, 1, 0), _of_pack(op, 1, 1)]
    return [op.x(0), op.x(1), op.x(2)]


def _biased(op: Op, values: list[str]) -> list[str]:
    """Their bias added to queries, keys and values; what lies by heads is of an earlier run, bias included."""
    shapes = [op.b.shape(x) for x in values]
    flat = [len(shape) == 3 for shape in shapes]
    op.need(all(flat) or len(shapes[1]) == len(shapes[2]) == 4, "has a bias for other inputs.")
    sizes = [shape[-1] if len(shape) == 3 else shape[1] * shape[3] for shape in shapes]
    biases = _side_by_side(op, op.x(3), sizes)
    return [
        op.point(lambda x, b: x + b, x, b) if whole else x for x, b, whole in zip(values, biases, flat, strict=True)
    ]


def _of_pack(op: Op, i: int, which: int) -> str:
    """One of those that lie side by side in [batch, length, heads, how many, size], as [batch, length, heads * size]."""
    batch, length, heads, _, size = op.shape(i)
    return op.b.reshape(op.slice(op.x(i), 3, which, 1), (batch, length, heads * size))


# -- fewer keys than queries, with a cache ---------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """Where the new keys go: ``past`` [batch, 1] of each sequence (int64), ``total`` columns, in a cache of ``room``."""

    past: str
    total: int
    room: int


def _group_query(op: Op) -> tuple[str | None, ...]:
    """Causal attention whose keys and values are written behind those of the cache, at places that lengths give."""
    op.need(
        op.text("k_quant_type", "NONE") == op.text("v_quant_type", "NONE") == "NONE"
        and not op.has(12)
        and not op.has(13),
        "keeps quantised keys. Export it with a cache of floats.",
    )
    op.need(not op.whole("sliding_window_cache", 0), "keeps a moving window. Export it with a cache of full length.")
    op.need(op.whole("kv_cache_bit_width", 0) in (0, 8 * op.dtype().size), "keeps keys of few bits.")
    parts = _grouped(op)
    batch, _, length, _ = op.b.shape(parts.q)
    kept = op.shape(3)[2] if op.has(3) else 0
    total = int(op.known(6, "The total length").reshape(-1)[0])
    op.need(length <= total < 1 << 24, f"the total length {total} does not hold the {length} tokens of its input.")
    place = _Place(_past(op, batch, length, total), total, max(kept, total))
    if op.whole("do_rotary", 0):
        parts = _turned(op, parts, place)
    present = [_cached(op, i, value, place) for i, value in ((3, parts.k), (4, parts.v))]
    k, v = (op.slice(p, 2, 0, total) for p in present)
    scores = scores_of(op, Heads(parts.q, k, v), op.optional(10), op.real("softcap", 0.0))
    weights = _with_sink(op, _visible(op, scores, place), op.optional(11))
    return mixed(op, weights, v), *present


def _grouped(op: Op) -> Heads:
    """Queries, keys and values, from one packed input or three; normalised per head where weights for it are given."""
    heads, groups = op.whole("num_heads"), op.whole("kv_num_heads")
    op.need(heads > 0 and groups > 0, "has no heads.")
    if op.has(1) and op.has(2):
        parts = [op.x(0), op.x(1), op.x(2)]
    else:
        size = op.shape()[2] // (heads + 2 * groups)
        parts = _side_by_side(op, op.x(0), [heads * size, groups * size, groups * size])
    q, k, v = (split(op, part, n) for part, n in zip(parts, (heads, groups, groups), strict=True))
    if op.has(14) or op.has(15):
        q, k = _normalised(op, q, op.x(14)), _normalised(op, k, op.x(15))
    return Heads(q, k, v)


def _normalised(op: Op, value: str, weight: str) -> str:
    """Every head's row over the root of its mean square, times a weight per element."""
    size, epsilon = float(op.b.shape(value)[3]), op.real("qk_norm_epsilon", 1e-6)
    root = op.reduce("sum", value, (3,), term=lambda x: x * x, post=lambda s: (s / size + epsilon).op("rsqrt"))
    return op.point(lambda x, r, w: x * r * w, value, root, weight)


def _past(op: Op, batch: int, length: int, total: int) -> str:
    """How many keys each sequence has already, [batch, 1]: none while the first tokens are read."""
    if length == total:
        return op.const(np.zeros((batch, 1)), DType.I64)
    ends = op.b.reshape(op.cast(op.x(5), DType.I64), (batch, 1))
    return op.point(lambda n: (n + (1 - length)).op("max", 0).op("min", total - length), ends)


def _turned(op: Op, parts: Heads, place: _Place) -> Heads:
    """Queries and keys turned by their positions."""
    batch, length = op.b.shape(parts.q)[0], op.b.shape(parts.q)[2]
    if op.has(9):
        positions = op.b.reshape(op.cast(op.x(9), DType.I64), (batch, length))
    else:
        positions = op.point(lambda p: p + index(1), place.past, shape=(batch, length))
    turned = [
        single(
            derived(
                op,
                "RotaryEmbedding",
                value,
                op.x(7),
                op.x(8),
                positions,
                interleaved=op.whole("rotary_interleaved", 0),
                rotary_embedding_dim=2 * op.shape(7)[1],
                num_heads=0,
            )
        )
        for value in (parts.q, parts.k)
    ]
    return replace(parts, q=turned[0], k=turned[1])


def _cached(op: Op, i: int, new: str, place: _Place) -> str:
    """The cache, grown to its new size, with the new rows in their places."""
    batch, groups, length, size = op.b.shape(new)
    if length == place.room:
        return new
    kept = [op.x(i)] if op.has(i) and op.shape(i)[2] else []
    have = op.shape(i)[2] if kept else 0
    if kept:
        op.need(op.shape(i) == (batch, groups, have, size), f"has a cache of the shape {list(op.shape(i))}.")
    filling = [op.const(np.zeros((batch, groups, place.room - have, size)), op.b.dtype(new))]
    cache = op.b.join([*kept, *filling] if have < place.room else kept, 2)
    known = op.b.known(place.past)
    if known is not None and (known == known.flat[0]).all():
        first, rest = int(known.flat[0]), place.room - length - int(known.flat[0])
        before = [op.slice(cache, 2, 0, first)] if first else []
        return op.b.join([*before, new, *([op.slice(cache, 2, first + length, rest)] if rest else [])], 2)
    return single(derived(op, "TensorScatter", cache, new, op.b.reshape(place.past, (batch,)), axis=2, mode="linear"))


def _visible(op: Op, scores: str, place: _Place) -> str:
    """Scores of keys that a query must not see as minus infinity."""
    batch, _, length, total = op.b.shape(scores)
    past, window = op.b.reshape(place.past, (batch, 1, 1, 1)), op.whole("local_window_size", -1)
    if not op.whole("causal", 1):
        op.need(window < 0, "has a window without being causal.")
        if length == total:
            ends = op.b.reshape(op.cast(op.x(5), DType.I64), (batch, 1, 1, 1))
            return op.point(lambda s, n: select(index(3).op("le", n.op("max", 0)), s, -math.inf), scores, ends)
        return op.point(lambda s, n: select(index(3).op("lt", n + length), s, -math.inf), scores, past)

    def seen(s: Term, n: Term) -> Term:
        here = index(2) + n
        s = select(index(3).op("le", here), s, -math.inf)
        return select(index(3).op("gt", here - window), s, -math.inf) if window >= 0 else s

    return op.point(seen, scores, past)


def _with_sink(op: Op, scores: str, sink: str | None) -> str:
    """Softmax over the last axis; with a sink, one more term that takes its share and leads nowhere."""
    if sink is None and op.whole("smooth_softmax", 0) != 1:
        return softmax(op, scores, 3)
    heads = op.b.shape(scores)[1]
    given = sink or op.const(np.zeros(heads), op.b.dtype(scores))
    extra = op.b.reshape(given, (1, heads, 1, 1))
    top = op.point(lambda m, e: m.op("max", e), op.reduce("max", scores, (3,)), extra)
    powers = op.point(lambda s, m: (s - m).op("exp"), scores, top)
    total = op.reduce("sum", powers, (3,))
    return op.point(lambda p, t, e, m: p / (t + (e - m).op("exp")), powers, total, extra, top)


# -- positions -------------------------------------------------------------------------------------------------------


def _rotary(op: Op) -> str:
    """The standard's rotary embedding with other places for its inputs; one position per sequence may stand for its first."""
    op.need(not op.whole("is_packed_batching", 0), "packs sequences of several lengths. Export it with one length.")
    ids, scale = op.x(1), op.real("scale", 1.0)
    op.need(scale == 1.0, f"scales by {scale}. Export it with a scale of 1.")
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
    "Attention": _attention,
    "MultiHeadAttention": _multi_head,
    "GroupQueryAttention": _group_query,
    "RotaryEmbedding": _rotary,
}
