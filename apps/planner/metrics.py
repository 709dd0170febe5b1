"""Judge a program's answers: whether each item is right, and with what confidence. Pure.

Macro F1 and the mean error are not used for cascades. Their bounds are in `apps.planner.scores`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np

from apps.figures import shape_format

Array = np.ndarray[Any, np.dtype[Any]]
NO_ANSWER, NO_LABEL = -1, -2
K_MAX = 100
MACRO_F1, MEAN_ERROR = "macro F1", "1 - mean error /"
NUMERIC = ("close", "snr")  # compared with the values of float32, not with its answers
PLACES = 6  # of an item's score
LIMIT_MAX = Decimal(10) ** 9
VOTING = ("accuracy", "agreement with float32")  # titles of metrics whose answer is the class with the highest score


class MetricError(Exception):
    """Raised if the metric cannot judge an output. The message says what to change."""


@dataclass(frozen=True)
class Metric:
    """How answers are judged.

    `accuracy`: the label is among the k highest scores. `exact`: every position of an item is right. `agreement`: the
    class with the highest score is the same as in float32. `f1`: macro F1. `mean_error`: the mean distance from the
    label, with each error capped at `limit`. `close`: no value differs from the float32 value by more than `limit`.
    `snr`: the signal-to-noise ratio against float32 is at least `limit` dB.
    """

    name: str
    k: int = 1
    limit: Decimal | None = None

    @property
    def title(self) -> str:
        """The title that evaluations store."""
        if self.name == "accuracy":
            return "accuracy" if self.k == 1 else f"top-{self.k} accuracy"
        limit = "" if self.limit is None else f"{self.limit.normalize():f}"
        return {
            "exact": "exact match",
            "agreement": "agreement with float32",
            "f1": MACRO_F1,
            "mean_error": f"{MEAN_ERROR} {limit}",
            "close": f"within {limit} of float32",
            "snr": f"at least {limit} dB over float32",
        }[self.name]

    @property
    def needs_labels(self) -> bool:
        return not self.compares_with_float32

    @property
    def compares_with_float32(self) -> bool:
        return self.name in ("agreement", *NUMERIC)

    @property
    def needs_limit(self) -> bool:
        return self.name in ("mean_error", *NUMERIC)


METRICS = {
    "accuracy": "Accuracy: the label is among the k highest-scoring classes",
    "exact": "Exact match: every position is right",
    "agreement": "Agreement with the float32 model",
    "f1": "Macro F1: the mean over the labels' classes",
    "mean_error": "Mean error: mean distance from the labels, each error capped at the limit",
    "close": "Close to float32: no value differs by more than the limit",
    "snr": "Signal-to-noise ratio against float32: at least the limit, in dB",
}


class Verdict(NamedTuple):
    """The judged items. An item is right if its values in `labels` and `predicted` are equal.

    `has_confidence` is False if the output gives no probabilities.
    """

    labels: list[int]
    predicted: list[int]
    confidence: list[str]
    has_confidence: bool


def scores_of(output: Array, name: str) -> Array:
    """Return the output in the shape [items, classes]. Raises MetricError unless each item has one score per class."""
    sizes = [size for size in output.shape[1:] if size != 1]
    if len(sizes) != 1 or output.dtype.kind not in "iuf":
        shape = shape_format(output.shape[1:])
        raise MetricError(f"Output '{name}' has shape {shape} per item; this metric needs one score per class.")
    return output.reshape(len(output), -1)


def judge(metric: Metric, output: Array, name: str, labels: Array | Sequence[int] | None) -> Verdict:
    """Judge an output of shape [items, ...]. Raises MetricError if the metric cannot judge the output.

    For `agreement`, `close` and `snr`, `labels` come from the float32 program; None if the output is from that program.
    """
    if metric.name == "exact":
        return _exact(output, name, np.asarray(labels))
    if metric.name == "mean_error":
        return _error(output, name, np.asarray(labels), metric)
    if metric.name in NUMERIC:
        return _numeric(output, name, output if labels is None else np.asarray(labels), metric)
    scores = scores_of(output, name)
    best = best_of(scores)
    confidence, has_confidence = _confidence(scores)
    if metric.name == "agreement":
        wanted = [int(one) for one in (best if labels is None else labels)]
        wanted = [NO_LABEL if one == NO_ANSWER else one for one in wanted]  # a missing answer agrees with nothing
        return Verdict(wanted, best.tolist(), confidence, has_confidence)
    known = np.asarray(labels)
    if known.ndim != 1:
        raise MetricError(
            "The data set has several labels per item. Choose exact match, or upload one label for each item."
        )
    classes_check(int(known.max()) + 1, scores.shape[1], name)
    if metric.name == "f1":
        return Verdict(known.tolist(), best.tolist(), ["0"] * len(known), has_confidence=False)
    return Verdict(known.tolist(), _top(scores, best, known, metric.k).tolist(), confidence, has_confidence)


def best_of(scores: Array) -> Array:
    """Return the class with the highest score for each item; `NO_ANSWER` if a score is NaN.

    In a tie, the first class wins.
    """
    wrong = np.asarray(np.isnan(scores.astype(np.float64)).any(axis=1))
    return np.where(wrong, NO_ANSWER, np.where(wrong[:, None], 0, scores).argmax(axis=1))


def _top(scores: Array, best: Array, labels: Array, k: int) -> Array:
    own = scores[np.arange(len(scores)), labels][:, None]
    earlier = np.arange(scores.shape[1])[None, :] < labels[:, None]
    ahead = ((scores > own) | ((scores == own) & earlier)).sum(axis=1)
    return np.where((ahead < k) & (best != NO_ANSWER), labels, best)


def _confidence(scores: Array) -> tuple[list[str], bool]:
    highest = np.nan_to_num(scores.astype(np.float64).max(axis=1), nan=0.0)
    if highest.min() < 0 or highest.max() > 1:
        return ["0"] * len(scores), False
    return [f"{value:.6f}" for value in highest.round(6)], True


def _exact(output: Array, name: str, labels: Array) -> Verdict:
    answers = output.reshape(len(output), *[size for size in output.shape[1:] if size != 1])
    wanted = labels.reshape(len(labels), *[size for size in labels.shape[1:] if size != 1])
    if answers.ndim == wanted.ndim + 1:
        if wanted.size:
            classes_check(int(wanted.max()) + 1, answers.shape[-1], name)
        unknown = np.asarray(np.isnan(answers.astype(np.float64)).any(axis=-1))
        answers = np.where(unknown, NO_ANSWER, answers.argmax(axis=-1))
    if answers.shape != wanted.shape:
        raise MetricError(
            f"Output '{name}' has {list(answers.shape[1:])} positions per item, but the labels have {list(wanted.shape[1:])}."
        )
    right = (answers == wanted).reshape(len(wanted), -1).all(axis=1)
    return Verdict([1] * len(wanted), right.astype(int).tolist(), ["0"] * len(wanted), has_confidence=False)


def classes_check(labels: int, classes: int, name: str) -> None:
    """Raise MetricError if the output has fewer than `labels` classes."""
    if labels > classes:
        raise MetricError(
            f"The labels go up to {labels - 1:,}, but output '{name}' has {classes:,} classes: 0 to {classes - 1:,}. Use "
            "the model's class numbers as labels."
        )


def _error(output: Array, name: str, labels: Array, metric: Metric) -> Verdict:
    if labels.ndim != 1 or int(np.prod(output.shape[1:])) != 1:
        raise MetricError(
            f"Output '{name}' and the labels must each have one number per item. Choose another metric or output."
        )
    assert metric.limit is not None
    limit = float(metric.limit)
    away = np.abs(output.reshape(-1).astype(np.float64) - labels)
    away = np.where(np.isnan(away), limit, np.minimum(away, limit))
    steps = np.floor((1 - away / limit) * 10**PLACES).astype(np.int64)
    scores = [f"{step // 10**PLACES}.{step % 10**PLACES:0{PLACES}d}" for step in steps.tolist()]
    return Verdict([1] * len(labels), (steps > 0).astype(int).tolist(), scores, has_confidence=False)


def _numeric(output: Array, name: str, wanted: Array, metric: Metric) -> Verdict:
    if output.shape != wanted.shape or output.dtype.kind not in "iuf":
        raise MetricError(
            f"Output '{name}' differs in shape or type from that of the float32 program. Choose a numeric output that "
            "the two programs share."
        )
    assert metric.limit is not None
    limit = float(metric.limit)
    signal, found = (one.reshape(len(output), -1).astype(np.float64) for one in (wanted, output))
    away = found - signal
    if metric.name == "close":
        right = np.abs(away).max(axis=1) <= limit  # NaN is not close
    else:
        noise = (away**2).sum(axis=1)
        right = (noise == 0) | ((signal**2).sum(axis=1) >= noise * 10 ** (limit / 10))
    return Verdict([1] * len(output), right.astype(int).tolist(), ["0"] * len(output), has_confidence=False)
