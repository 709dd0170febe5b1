"""Operators that count occurrences: n-grams of a vocabulary."""

from __future__ import annotations

import numpy as np

from compiler.frontend.op import Op, Rule
from compiler.ir import Access, DType, Operand, Term, arg, index, select

_LARGEST = 1 << 22  # entries of the table from n-grams to outputs


def _vocabulary(op: Op) -> dict[int, dict[tuple[int, ...], int]]:
    """By length: n-gram -> output that counts it."""
    shortest, longest = op.whole("min_gram_length"), op.whole("max_gram_length")
    op.need("pool_int64s" in op.attributes, "counts texts. Export it with whole numbers.")
    pool, starts, places = op.wholes("pool_int64s"), op.wholes("ngram_counts"), op.wholes("ngram_indexes")
    op.need(
        0 < shortest <= longest <= 16 and sorted(starts) == starts and min(places) >= 0,
        "its vocabulary makes no sense.",
    )
    found: dict[int, dict[tuple[int, ...], int]] = {}
    number = 0
    for length, (start, end) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), 1):
        op.need((end - start) % length == 0 and start >= 0 and end <= len(pool), "its vocabulary makes no sense.")
        for at in range(start, end, length):
            if shortest <= length <= longest:
                op.need(number < len(places), "its vocabulary makes no sense.")
                found.setdefault(length, {})[tuple(pool[at : at + length])] = places[number]
            number += 1
    return found


def _tf_idf(op: Op) -> str:
    vocabulary = _vocabulary(op)
    shape = op.shape()
    op.need(len(shape) in (1, 2), "takes one row of words, or several.")
    rows = op.b.reshape(op.cast(op.x(), DType.I64), (1, *shape) if len(shape) == 1 else shape)
    outputs = max(op.wholes("ngram_indexes")) + 1
    total = op.const(np.zeros((op.b.shape(rows)[0], outputs)), DType.F32)
    for length, grams in vocabulary.items():
        op.need(len(grams) * outputs <= _LARGEST, "its vocabulary is too large.")
        table = np.zeros((len(grams), outputs))
        table[np.arange(len(grams)), list(grams.values())] = 1.0
        for skip in range(1, op.whole("max_skip_count") + 2 if length > 1 else 2):
            places = op.b.shape(rows)[1] - skip * (length - 1)
            if places > 0:
                counted = _counted(op, rows, np.array(list(grams), np.int64), skip, places)
                found = op.contract("bm,mo->bo", counted, op.const(table, DType.F32))
                total = op.point(lambda a, b: a + b, total, found)
    mode = op.text("mode")
    op.need(mode in ("TF", "IDF", "TFIDF"), f"the mode {mode!r} is unknown.")
    if mode == "IDF":
        total = op.point(lambda x: select(x.op("gt", 0.0), 1.0, x), total)
    if mode != "TF" and op.reals("weights"):
        weights = op.reals("weights")
        op.need(len(weights) == outputs, "it has not one weight per output.")
        total = op.point(lambda x, w: x * w, total, op.const(weights, DType.F32))
    return op.b.reshape(total, (outputs,)) if len(shape) == 1 else total


def _counted(op: Op, rows: str, grams: np.ndarray, skip: int, places: int) -> str:
    """How often each n-gram (whose words stand ``skip`` apart) occurs: [row, n-gram]."""
    loops = (op.b.shape(rows)[0], len(grams), places)
    operands: list[Operand] = []
    same: Term | None = None
    for k in range(grams.shape[1]):
        operands.append(Operand(rows, Access((0, k * skip), ((1, 0, 0), (0, 0, 1)))))
        operands.append(Operand(op.const(grams[:, k], DType.I64), Access((0,), ((0, 1, 0),))))
        equal = arg(2 * k, DType.I64).op("eq", arg(2 * k + 1, DType.I64))
        same = equal if same is None else same.op("and", equal)
    assert same is not None
    one = index(0).cast(DType.F32) * 0.0 + 1.0
    return op.b.compute(loops, operands, select(same, one, 0.0), parallel=2, reducer="sum")


TABLE: dict[str, Rule] = {"TfIdfVectorizer": _tf_idf}
