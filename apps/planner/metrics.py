"""Whether a program's answers are right: one verdict and one confidence for each item. Pure: NumPy, no Django.

Every metric here judges an item as right or wrong, so that the share of right ones has an exact binomial bound and a
cascade of programs can be judged like a single one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
NO_ANSWER, NO_LABEL = -1, -2
K_MAX = 100


class MetricError(Exception):
    """These outputs cannot be judged so; the message is one sentence with the remedy."""


@dataclass(frozen=True)
class Metric:
    """`accuracy`: the label is among the k best scores; `exact`: every position of an item is right; `agreement`: the best
    score is where the float32 model has it."""

    name: str
    k: int = 1

    @property
    def title(self) -> str:
        """As it is stored with an evaluation: evaluations of one title on one data set are alternatives."""
        if self.name == "accuracy":
            return "accuracy" if self.k == 1 else f"top-{self.k} accuracy"
        return {"exact": "exact match", "agreement": "agreement with float32"}[self.name]

    @property
    def needs_labels(self) -> bool:
        return self.name != "agreement"


METRICS = {
    "accuracy": "Accuracy: the label is among the k highest scores",
    "exact": "Exact match: every position is right",
    "agreement": "Agreement with the float32 model",
}


class Verdict(NamedTuple):
    """`labels` and `predicted` are equal where an item is right; `confidence` is "0" throughout where the output gives no
    probabilities (`has_confidence`)."""

    labels: list[int]
    predicted: list[int]
    confidence: list[str]
    has_confidence: bool


def scores_of(output: Array, name: str) -> Array:
    """The output as [items, classes]. Raises MetricError unless it holds one score for each class of an item."""
    sizes = [size for size in output.shape[1:] if size != 1]
    if len(sizes) != 1 or output.dtype.kind not in "iuf":
        shape = " x ".join(str(size) for size in output.shape[1:]) or "one number"
        raise MetricError(f"Output '{name}' has shape {shape} an item; this metric needs one score for each class.")
    return output.reshape(len(output), -1)


def judge(metric: Metric, output: Array, name: str, labels: Array | Sequence[int] | None) -> Verdict:
    """Judge the `output` named `name`, [items, ...]; `labels` are class numbers, or with `agreement` what float32 answered
    (None for float32 itself). Raises MetricError."""
    if metric.name == "exact":
        return _exact(output, name, np.asarray(labels))
    scores = scores_of(output, name)
    best = _best(scores)
    confidence, has_confidence = _confidence(scores)
    if metric.name == "agreement":
        wanted = [int(one) for one in (best if labels is None else labels)]
        wanted = [NO_LABEL if one == NO_ANSWER else one for one in wanted]  # no answer agrees with nothing
        return Verdict(wanted, best.tolist(), confidence, has_confidence)
    known = np.asarray(labels)
    if known.ndim != 1:
        raise MetricError("The data set has several labels an item; choose exact match, or send one label for each item.")
    classes_check(int(known.max()) + 1, scores.shape[1], name)
    return Verdict(known.tolist(), _top(scores, best, known, metric.k).tolist(), confidence, has_confidence)


def _best(scores: Array) -> Array:
    """The class with the highest score, the first of equals; `NO_ANSWER` where a score is not a number."""
    wrong = np.asarray(np.isnan(scores.astype(np.float64)).any(axis=1))
    return np.where(wrong, NO_ANSWER, np.where(wrong[:, None], 0, scores).argmax(axis=1))


def _top(scores: Array, best: Array, labels: Array, k: int) -> Array:
    """The label where fewer than k classes have a higher score (of equal ones the first count), else the best class."""
    own = scores[np.arange(len(scores)), labels][:, None]
    earlier = np.arange(scores.shape[1])[None, :] < labels[:, None]
    ahead = ((scores > own) | ((scores == own) & earlier)).sum(axis=1)
    return np.where((ahead < k) & (best != NO_ANSWER), labels, best)


def _confidence(scores: Array) -> tuple[list[str], bool]:
    """The highest score as a decimal of six places, as a cascade reads it; none where the scores are no probabilities."""
    highest = np.nan_to_num(scores.astype(np.float64).max(axis=1), nan=0.0)
    if highest.min() < 0 or highest.max() > 1:
        return ["0"] * len(scores), False
    return [f"{value:.6f}" for value in highest.round(6)], True


def _exact(output: Array, name: str, labels: Array) -> Verdict:
    """1 where all positions of an item are right, else 0, against the label 1."""
    answers = output.reshape(len(output), *[size for size in output.shape[1:] if size != 1])
    wanted = labels.reshape(len(labels), *[size for size in labels.shape[1:] if size != 1])
    if answers.ndim == wanted.ndim + 1:
        if wanted.size:
            classes_check(int(wanted.max()) + 1, answers.shape[-1], name)
        unknown = np.asarray(np.isnan(answers.astype(np.float64)).any(axis=-1))
        answers = np.where(unknown, NO_ANSWER, answers.argmax(axis=-1))
    if answers.shape != wanted.shape:
        raise MetricError(
            f"Output '{name}' answers {list(answers.shape[1:])} positions an item, and the labels have {list(wanted.shape[1:])}."
        )
    right = (answers == wanted).reshape(len(wanted), -1).all(axis=1)
    return Verdict([1] * len(wanted), right.astype(int).tolist(), ["0"] * len(wanted), has_confidence=False)


def classes_check(labels: int, classes: int, name: str) -> None:
    """Raises MetricError where labels from 0 to `labels` - 1 name more classes than the output has."""
    if labels > classes:
        raise MetricError(
            f"The labels go up to {labels - 1}, and output '{name}' has {classes} classes: 0 to {classes - 1}. Number the "
            "labels as the model does."
        )
