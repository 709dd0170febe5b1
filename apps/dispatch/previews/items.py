"""Previews of one item of an array, in readable form."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from apps.dispatch.previews.arrays import Array
from apps.dispatch.previews.numbers import number_text
from apps.dispatch.previews.pictures import Picture, picture

TOP = 5
CLASSES_MAX = 100_000
VALUES_SHOWN = 16
SUMS_TO_ONE = 1e-3
# Vectors of these names are features, whose largest value says nothing.
FEATURES = re.compile(r"embed|hidden|pool|feature|state|box|coord|loc", re.IGNORECASE)


@dataclass(frozen=True)
class Score:
    """A class and its score. `share` is the probability of the class."""

    number: int
    label: str
    value: str
    share: float


@dataclass(frozen=True)
class Preview:
    """The preview of an item. `kind` is "image", "scores", "values" or "too large"."""

    name: str
    kind: str
    picture: Picture | None = None
    scores: list[Score] = field(default_factory=list)
    is_softmax: bool = False
    classes: int = 0
    values: list[str] = field(default_factory=list)
    more: int = 0


def preview(name: str, values: Array | None, labels: Callable[[int], Sequence[str]] = lambda _: ()) -> Preview:
    """Return the preview of an item. `values` is None if the item is too large to read.

    `labels` takes the number of classes and returns their names; an empty list if the names are unknown.
    """
    if values is None:
        return Preview(name, "too large")
    shown = picture(values)
    if shown is not None:
        return Preview(name, "image", picture=shown)
    if _is_scores(name, values):
        return _scores(name, values.reshape(-1).astype(np.float64), labels)
    flat = values.reshape(-1)
    texts = [_text(one) for one in flat[:VALUES_SHOWN]]
    return Preview(name, "values", values=texts, more=max(0, flat.size - VALUES_SHOWN))


def _is_scores(name: str, values: Array) -> bool:
    # Scores form a vector of finite floats. The name must not suggest a feature vector.
    axes = [size for size in values.shape if size > 1]
    is_vector = len(axes) == 1 and 2 <= axes[0] <= CLASSES_MAX and values.dtype.kind == "f"
    return is_vector and not FEATURES.search(name) and bool(np.isfinite(values).all())


def _scores(name: str, scores: Array, labels_for: Callable[[int], Sequence[str]]) -> Preview:
    is_probability = bool(scores.min() >= 0) and abs(float(scores.sum()) - 1) <= SUMS_TO_ONE
    shares = scores if is_probability else softmax(scores)
    labels = labels_for(len(scores))
    order = np.argsort(-scores, kind="stable")[:TOP]
    found = [
        Score(int(one), labels[one] if one < len(labels) else "", number_text(float(scores[one])), float(shares[one]))
        for one in order
    ]
    return Preview(name, "scores", scores=found, is_softmax=not is_probability, classes=len(scores))


def softmax(scores: Array) -> Array:
    """Return the softmax of the scores in double precision."""
    powers = np.exp(scores - scores.max())
    shares: Array = powers / powers.sum()
    return shares


def _text(value: object) -> str:
    if isinstance(value, np.bool_):
        return "true" if value else "false"
    return number_text(float(value)) if isinstance(value, np.integer | np.floating) else str(value)
