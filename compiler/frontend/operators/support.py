"""Support vector machines of ``ai.onnx.ml``: kernels between rows and vectors, one score per pair of classes, votes.

Meaning as ONNX Runtime computes it; the classes' pairs and votes are LIBSVM's (Chang and Lin, ACM TIST 2011).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from compiler.frontend.op import Array, Op, Rule
from compiler.frontend.operators.derived import plain
from compiler.frontend.operators.learners import choices, labels_of, table
from compiler.ir import DType

KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")


def _kernel(op: Op, vectors: Array) -> str:
    """Each row with each support vector, [rows, vectors]."""
    value, rows, width = table(op)
    value = op.cast(value, DType.F32)
    name, given = op.text("kernel_type", "LINEAR"), op.reals("kernel_params")
    op.need(name in KERNELS, f"has the kernel {name!r}; offered are {', '.join(KERNELS)}.")
    op.need(len(given) == 3 or (name == "LINEAR" and not given), f"has {len(given)} kernel parameters instead of 3.")
    gamma, shift, degree = given or (0.0, 0.0, 0.0)
    if name == "RBF":
        wide = op.b.reshape(value, (rows, 1, width))
        apart = op.point(lambda x, v: (x - v) * (x - v), wide, op.const(vectors[None], DType.F32))
        return op.reduce("sum", apart, (2,), keep=False, post=lambda s: (s * -gamma).op("exp"))
    done = plain(op, "MatMul", value, op.const(vectors.T, DType.F32))
    if name == "LINEAR":
        return done
    moved = op.point(lambda x: x * gamma + shift, done)
    if name == "SIGMOID":
        return op.point(lambda x: x.op("tanh"), moved)
    return plain(op, "Pow", moved, op.const(degree, DType.F32))


def _vectors(op: Op, count: int) -> Array:
    found = np.array(op.reals("support_vectors"), np.float32)
    width = op.shape()[-1]
    op.need(count > 0, "has no support vectors. Export it as a linear model.")
    op.need(found.size == count * width, f"has {found.size} numbers in {count} support vectors for {width} features.")
    return found.reshape(count, width)


def _none(op: Op) -> None:
    how = op.text("post_transform", "NONE")
    op.need(how == "NONE", f"ends in {how!r}, which runtimes apply differently here. Export it with NONE.")


def _regressor(op: Op) -> str:
    vectors = _vectors(op, op.whole("n_supports"))
    coefficients, rho = op.reals("coefficients"), op.reals("rho")
    op.need(len(coefficients) == len(vectors) and len(rho) == 1, "has another number of coefficients than of vectors.")
    _none(op)
    weights = op.const(np.reshape(coefficients, (-1, 1)), DType.F32)
    done = op.point(lambda s: s + rho[0], plain(op, "MatMul", _kernel(op, vectors), weights))
    if op.whole("one_class", 0):
        return op.point(lambda s: s.op("gt", 0.0).cast(DType.F32) * 2.0 - 1.0, done)
    return done


def _classifier(op: Op) -> tuple[str | None, ...]:
    """The label with most votes (the first of equals) and a score per pair of classes; of two classes one per class."""
    labels = labels_of(op, "classlabels_strings", "classlabels_ints")
    classes = labels if isinstance(labels, int) else len(labels)
    counts = op.wholes("vectors_per_class", [])
    op.need(counts, "has no support vectors. Export it as a linear model.")
    op.need(len(counts) == classes > 1 and min(counts) >= 0, f"has vectors for {len(counts)} of {classes} classes.")
    probable = op.reals("prob_a") or op.reals("prob_b")
    op.need(
        not probable,
        "estimates probabilities by steps whose number the data decides. Export it without them (probability=False).",
    )
    _none(op)
    vectors = _vectors(op, sum(counts))
    weights, pairs = _pairs(op, counts)
    rho = op.reals("rho")
    op.need(len(rho) == len(pairs), f"has {len(rho)} offsets for {len(pairs)} pairs of classes.")
    sums = plain(op, "MatMul", _kernel(op, vectors), op.const(weights, DType.F32))
    scores = op.point(lambda s, r: s + r, sums, op.const(rho, DType.F32))
    first, second = (np.array([[pair[side] == c for c in range(classes)] for pair in pairs]) for side in range(2))
    won = op.point(lambda s: s.op("gt", 0.0).cast(DType.F32), scores)
    difference = op.const(first.astype(np.float32) - second, DType.F32)
    votes = op.point(lambda v, o: v + o, plain(op, "MatMul", won, difference), op.const(second.sum(axis=0), DType.F32))
    label = choices(op, plain(op, "ArgMax", votes, axis=1, keepdims=0), labels)
    return label, scores if classes > 2 else op.b.join([op.point(lambda s: -s, scores), scores], 1)


def _pairs(op: Op, counts: list[int]) -> tuple[Array, list[tuple[int, int]]]:
    """What each vector adds to each pair's score, [vectors, pairs]: coefficients are one row per other class."""
    total, classes = sum(counts), len(counts)
    given = np.array(op.reals("coefficients"), np.float32)
    op.need(
        given.size == total * (classes - 1), f"has {given.size} coefficients for {total} vectors of {classes} classes."
    )
    rows = given.reshape(classes - 1, total)
    begin = np.concatenate([[0], np.cumsum(counts)])
    pairs = list(combinations(range(classes), 2))
    weights = np.zeros((total, len(pairs)), np.float32)
    for n, (i, j) in enumerate(pairs):
        weights[begin[i] : begin[i + 1], n] = rows[j - 1, begin[i] : begin[i + 1]]
        weights[begin[j] : begin[j + 1], n] = rows[i, begin[j] : begin[j + 1]]
    return weights, pairs


TABLE: dict[str, Rule] = {"SVMClassifier": _classifier, "SVMRegressor": _regressor}
