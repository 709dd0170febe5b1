"""Numeric operators of ``ai.onnx.ml``: tree ensembles, linear models, and what prepares their inputs."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from compiler.frontend.op import Array, Op, Rule
from compiler.frontend.operators.derived import plain
from compiler.frontend.operators.forest import COMPARISONS, LEAF, Forest, classic, modern
from compiler.frontend.operators.reduction import softmax
from compiler.ir import DType, Term, select

POST = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_ZERO = 1e-7  # what ONNX Runtime takes for nothing


def table(op: Op) -> tuple[str, int, int]:
    """The input as [rows, features], floats."""
    shape = op.shape()
    op.need(len(shape) in (1, 2) and shape[-1] > 0, f"takes rows of features, not {list(shape)}.")
    rows = shape[0] if len(shape) == 2 else 1
    wide = op.x() if op.dtype().is_float else op.cast(op.x(), DType.F32)
    return op.b.reshape(wide, (rows, shape[-1])), rows, shape[-1]


# -- trees -----------------------------------------------------------------------------------------------------------


def _descended(op: Op, forest: Forest) -> str:
    """The leaf that every row reaches in every tree, [rows, trees]: as many steps as the longest path has.

    What is known of a node lies side by side, so that one look-up fetches all of it.
    """
    value, rows, _ = table(op)
    dtype = op.b.dtype(value)
    modes = sorted(set(forest.mode.tolist()) - {LEAF})
    nodes = op.const(*_rows(forest, dtype))
    here = op.const(np.broadcast_to(forest.roots, (rows, len(forest.roots))), op.b.dtype(nodes))
    for _ in range(forest.steps):
        found = plain(op, "Gather", nodes, here)
        feature, *parts = (op.b.reshape(op.slice(found, 2, i, 1), op.b.shape(here)) for i in range(FIELDS))
        at = plain(op, "GatherElements", value, feature, axis=1)
        here = op.point(lambda *terms: _next(modes, *terms), at, *(parts if len(modes) > 1 else parts[:-1]))
    return here


FIELDS = 6  # of a node: feature, split, yes, no, lost, mode
ROW = 8  # with which rows end where lines do


def _rows(forest: Forest, dtype: DType) -> tuple[Array, DType]:
    """All nodes, [nodes, ``ROW``], as whole numbers as wide as splits are; these are bits of floats."""
    whole, real = (DType.I64, np.float64) if dtype == DType.F64 else (DType.I32, np.float32)
    made = np.zeros((len(forest.mode), ROW), f"i{whole.size}")
    split = forest.split.astype(dtype.numpy).astype(real)
    fields = (forest.feature, split.view(made.dtype), forest.yes, forest.no, forest.lost, forest.mode)
    for place, field in enumerate(fields):
        made[:, place] = field
    return made, whole


def _next(modes: list[int], x: Term, split: Term, yes: Term, no: Term, lost: Term, *mode: Term) -> Term:
    """Where a comparison leads; ``split``: its bits."""
    split = Term("bitcast", (split,), DType.F64 if x.dtype == DType.F64 else DType.F32).cast(x.dtype)
    found = x.op(COMPARISONS[modes[0]], split)
    for other in modes[1:]:
        found = select(mode[0].op("eq", other), x.op(COMPARISONS[other], split), found)
    return select(x.op("ne", x), lost, select(found, yes, no))


def _scores(op: Op, forest: Forest, how: str, dtype: DType = DType.F32) -> str:
    """What the leaves add, [rows, results]."""
    leaves = _descended(op, forest)
    found = plain(op, "Gather", op.const(forest.weights, dtype), leaves)  # [rows, trees, results]
    trees = float(len(forest.roots))
    if how in ("MIN", "MAX"):
        return op.reduce(how.lower(), found, (1,), keep=False)
    op.need(how in ("SUM", "AVERAGE"), f"joins its trees by {how!r}.")
    return op.reduce("sum", found, (1,), keep=False, post=(lambda s: s / trees) if how == "AVERAGE" else None)


def _based(op: Op, scores: str, targets: int) -> str:
    tensor = op.tensor("base_values_as_tensor")
    base = tensor.reshape(-1).tolist() if tensor is not None else op.reals("base_values")
    op.need(len(base) in (0, targets), f"has {len(base)} first values for {targets} results.")
    return op.point(lambda s, b: s + b, scores, op.const(base, DType.F32)) if base else scores


def _regressor(op: Op) -> str:
    targets = op.whole("n_targets", 1)
    op.need(0 < targets <= 1 << 16, f"has {targets} results.")
    scores = _scores(op, classic(op, "target", targets), op.text("aggregate_function", "SUM"))
    return _posted(op, _based(op, scores, targets), op.text("post_transform", "NONE"))


def _ensemble(op: Op) -> str:
    targets, how, post = op.whole("n_targets", 1), op.whole("aggregate_function", 1), op.whole("post_transform", 0)
    op.need(0 < targets <= 1 << 16 and 0 <= how < 4 and 0 <= post < len(POST), "has attributes outside their ranges.")
    done = _scores(op, modern(op, targets), ("AVERAGE", "SUM", "MIN", "MAX")[how], op.dtype())
    return _posted(op, done, POST[post])


def _posted(op: Op, scores: str, how: str) -> str:
    """The scores behind the transform that an attribute names."""
    if how == "NONE":
        return scores
    if how == "LOGISTIC":
        return op.point(lambda s: s.op("sigmoid"), scores)
    if how == "SOFTMAX":
        return softmax(op, scores, 1)
    op.need(how == "SOFTMAX_ZERO", f"ends in {how!r}; offered are {', '.join(POST[:4])}.")
    top = op.reduce("max", scores, (1,))

    def power(s: Term, m: Term) -> Term:
        return select(s.op("abs").op("gt", _ZERO), (s - m).op("exp"), s * (-m).op("exp"))

    powers = op.point(power, scores, top)
    counted = op.point(lambda s, p: select(s.op("abs").op("gt", _ZERO), p, 0.0), scores, powers)
    total = op.reduce("sum", counted, (1,))
    return op.point(lambda p, t: p / t, powers, total)


# -- classes ---------------------------------------------------------------------------------------------------------


def labels_of(op: Op, texts: str, wholes: str) -> list[int] | int:
    """The numbers of the classes; how many there are when they are texts, which nothing here computes."""
    given = op.wholes(wholes, [])
    named = op.texts(texts)
    op.need(given or named, "names no classes.")
    return given or len(named)


def choices(op: Op, place: str, labels: list[int] | int) -> str | None:
    """The label at a place."""
    if isinstance(labels, int):
        return None  # texts: the operation is refused where this output is used
    return plain(op, "Gather", op.const(labels, DType.I64), place)


def _best(op: Op, scores: str) -> str:
    return plain(op, "ArgMax", scores, axis=1, keepdims=0)


def _classifier(op: Op) -> tuple[str | None, ...]:
    labels = labels_of(op, "classlabels_strings", "classlabels_int64s")
    classes = labels if isinstance(labels, int) else len(labels)
    forest = classic(op, "class", classes)
    used, post = sorted(set(op.wholes("class_ids"))), op.text("post_transform", "NONE")
    scores = _scores(op, forest, "SUM")
    if classes != 2 or len(used) != 1:
        based = op.reals("base_values") or op.tensor("base_values_as_tensor") is not None
        op.need(classes != 2 or not based, "has first values for two classes, which runtimes add differently.")
        scores = _based(op, scores, classes)
        # Of two classes that are both scored, runtimes do not name the same one.
        label = choices(op, _best(op, scores), labels) if classes != 2 else None
        return label, _posted(op, scores, post)
    positive = bool((forest.weights >= 0).all())
    return _one_score(op, op.slice(scores, 1, used[0], 1), labels, post, positive=positive, second=used[0] == 1)


def _one_score(
    op: Op, score: str, labels: list[int] | int, post: str, *, positive: bool, second: bool
) -> tuple[str | None, ...]:
    """Two classes of which one is scored: a probability when no weight is negative, else a distance; the first class's
    score stands for both, the ``second``'s beside nothing."""
    base = op.reals("base_values")
    op.need(op.tensor("base_values_as_tensor") is None, "has first values in a tensor. Export it with a list.")
    op.need(len(base) < 2 - second, "has first values for other scores than its leaves add. Export it without.")
    if base:
        score = op.point(lambda s: s + base[0], score)
    place = op.point(lambda s: s.op("gt", 0.5 if positive else 0.0).cast(DType.I64), score)
    label = choices(op, op.b.reshape(place, op.b.shape(place)[:1]), labels)
    if second:
        return label, _posted(op, op.b.join([op.point(lambda s: 0.0 * s, score), score], 1), post)
    logistic = post == "LOGISTIC"
    other = op.point((lambda s: 1.0 - s) if positive and not logistic else (lambda s: -s), score)
    both = op.b.join([other, score], 1)
    return label, _posted(op, both, post) if logistic else both


def _linear_classifier(op: Op) -> tuple[str | None, ...]:
    labels = labels_of(op, "classlabels_strings", "classlabels_ints")
    classes = labels if isinstance(labels, int) else len(labels)
    post = op.text("post_transform", "NONE")
    op.whole("multi_class", 0)
    scores = _linear(op, len(op.reals("coefficients")) // op.shape()[-1])
    if op.b.shape(scores)[1] == 1 and classes == 2:
        place = op.point(lambda s: s.op("gt", 0.0).cast(DType.I64), scores)
        label = choices(op, op.b.reshape(place, op.b.shape(place)[:1]), labels)
        if post == "LOGISTIC":
            return label, _posted(op, op.b.join([op.point(lambda s: -s, scores), scores], 1), post)
        return label, op.b.join([op.point(lambda s: 1.0 - s, scores), scores], 1)
    op.need(op.b.shape(scores)[1] == classes, f"scores {op.b.shape(scores)[1]} of {classes} classes.")
    return choices(op, _best(op, scores), labels), _posted(op, scores, post)


def _linear(op: Op, targets: int) -> str:
    """The input times the coefficients, and the intercepts."""
    value, _, width = table(op)
    coefficients = np.array(op.reals("coefficients"), np.float32)
    op.need(
        targets > 0 and coefficients.size == targets * width,
        f"has {coefficients.size} coefficients for {width} features.",
    )
    done = plain(op, "MatMul", op.cast(value, DType.F32), op.const(coefficients.reshape(targets, width).T, DType.F32))
    intercepts = op.reals("intercepts")
    op.need(len(intercepts) in (0, targets), f"has {len(intercepts)} intercepts for {targets} results.")
    return op.point(lambda x, c: x + c, done, op.const(intercepts, DType.F32)) if intercepts else done


def _linear_regressor(op: Op) -> str:
    return _posted(op, _linear(op, op.whole("targets", 1)), op.text("post_transform", "NONE"))


# -- features --------------------------------------------------------------------------------------------------------


def _per_feature(op: Op, name: str, default: float) -> str:
    given = op.reals(name) or [default]
    op.need(len(given) in (1, op.shape()[-1]), f"has {len(given)} entries in {name!r} for {op.shape()[-1]} features.")
    return op.const(given if len(given) > 1 else given[0], DType.F32)


def _scaler(op: Op) -> str:
    value = op.cast(op.x(), DType.F32)
    return op.point(lambda x, o, s: (x - o) * s, value, _per_feature(op, "offset", 0.0), _per_feature(op, "scale", 1.0))


def _normalizer(op: Op) -> str:
    value, _, _ = table(op)
    value, how = op.cast(value, DType.F32), op.text("norm", "MAX")
    op.need(how in ("MAX", "L1", "L2"), f"has the norm {how!r}.")
    before: dict[str, Callable[[Term], Term]] = {"L1": lambda x: x.op("abs"), "L2": lambda x: x * x}
    size = op.reduce("max" if how == "MAX" else "sum", value, (1,), term=before.get(how))
    if how == "L2":
        size = op.point(lambda s: s.op("sqrt"), size)
    done = op.point(lambda x, s: select(s.op("eq", 0.0), x, x / s), value, size)
    return op.b.reshape(done, op.shape())


def _binarizer(op: Op) -> str:
    threshold, dtype = op.real("threshold", 0.0), op.dtype()
    return op.point(lambda x: x.cast(DType.F32).op("gt", threshold).cast(dtype), op.x())


def _imputer(op: Op) -> str:
    real = op.dtype().is_float
    given: list[float] | list[int] = op.reals("imputed_value_floats") if real else op.wholes("imputed_value_int64s", [])
    op.need(len(given) in (1, op.shape()[-1]), f"has {len(given)} values for {op.shape()[-1]} features.")
    missing = op.real("replaced_value_float", 0.0) if real else op.whole("replaced_value_int64", 0)
    new = op.const(given if len(given) > 1 else given[0], op.dtype())
    if missing != missing:
        return op.point(lambda x, v: select(x.op("ne", x), v, x), op.x(), new)
    return op.point(lambda x, v: select(x.op("eq", missing), v, x), op.x(), new)


def _extractor(op: Op) -> str:
    value = op.x() if op.rank() > 1 else op.b.reshape(op.x(), (1, op.shape()[0]))
    places = op.b.reshape(op.x(1), (prod(op.shape(1)),))
    return plain(op, "Gather", value, places, axis=len(op.b.shape(value)) - 1)


def _vectorizer(op: Op) -> str:
    sizes = op.wholes("inputdimensions")
    op.need(len(sizes) == len(op.inputs), "has another number of inputs than sizes.")
    parts = []
    for i, size in enumerate(sizes):
        shape = op.shape(i)
        part = op.b.reshape(op.cast(op.x(i), DType.F32), (shape[0] if len(shape) > 1 else 1, shape[-1]))
        parts.append(op.slice(part, 1, 0, min(size, shape[-1])))
        op.need(size <= shape[-1], f"takes {size} of {shape[-1]} features.")
    return op.b.join(parts, 1)


def _one_hot(op: Op) -> str:
    categories = op.wholes("cats_int64s", [])
    op.need(categories and not op.texts("cats_strings"), "compares texts. Export it with whole numbers.")
    op.need(op.whole("zeros", 1), "fails where a category is unknown. Export it with zeros=1.")
    wide = op.b.reshape(op.cast(op.x(), DType.I64), (*op.shape(), 1))
    return op.point(lambda x, c: x.op("eq", c).cast(DType.F32), wide, op.const(categories, DType.I64))


def _encoder(op: Op) -> str:
    """Keys to values, the default for all others."""
    keys, key_type = _side(op, "keys")
    values, value_type = _side(op, "values")
    op.need(len(keys) == len(values) > 0, "has another number of keys than values.")
    op.need(key_type == op.dtype(), f"takes {key_type.value}.")
    tensor = op.tensor("default_tensor")
    if tensor is not None:
        other = tensor.reshape(-1)[0]
    else:
        other = op.real("default_float", 0.0) if value_type.is_float else op.whole("default_int64", -1)
    table = op.const(np.concatenate([[other], values]), value_type)
    numbers = op.const(np.arange(1, len(keys) + 1), DType.I64)
    wide = op.b.reshape(op.x(), (*op.shape(), 1))

    def same(x: Term, k: Term, n: Term) -> Term:
        equal = x.op("eq", k)
        return select(equal.op("or", x.op("ne", x).op("and", k.op("ne", k))) if key_type.is_float else equal, n, 0)

    hits = op.point(same, wide, op.const(keys, key_type), numbers)
    return plain(op, "Gather", table, op.reduce("max", hits, (len(op.shape()),), keep=False))


def _side(op: Op, name: str) -> tuple[Array, DType]:
    """The keys or the values of a table, and their type."""
    tensor = op.tensor(f"{name}_tensor")
    if tensor is not None:
        return tensor.reshape(-1), DType.of(tensor.dtype)
    op.need(not op.texts(f"{name}_strings"), f"has texts as {name}. Do this step outside the model.")
    if f"{name}_floats" in op.attributes:
        return np.array(op.reals(f"{name}_floats"), np.float32), DType.F32
    return np.array(op.wholes(f"{name}_int64s"), np.int64), DType.I64


TABLE: dict[str, Rule] = {
    "TreeEnsemble": _ensemble,
    "TreeEnsembleRegressor": _regressor,
    "TreeEnsembleClassifier": _classifier,
    "LinearRegressor": _linear_regressor,
    "LinearClassifier": _linear_classifier,
    "Scaler": _scaler,
    "Normalizer": _normalizer,
    "Binarizer": _binarizer,
    "Imputer": _imputer,
    "ArrayFeatureExtractor": _extractor,
    "FeatureVectorizer": _vectorizer,
    "OneHotEncoder": _one_hot,
    "LabelEncoder": _encoder,
}
