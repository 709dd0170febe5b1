"""The answers of models on held-out items, alone and combined, and the resulting bounds.

Thresholds and combinations are chosen on the tuning items, and bounds are computed on the test items. If several bounds
come from the same items, the error is divided by the number of bounds (Bonferroni).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apps.registry.confidence import lower_bound, upper_bound

Counts = npt.NDArray[np.int64]
ERROR = Fraction(1, 20)
LEVELS = 50  # confidences to try for each of the two thresholds of a cascade of three


@dataclass(frozen=True)
class Answers:
    """The answers on the items of one split: correctness, confidence and predicted class.

    `predicted` is empty if the classes are unknown.
    """

    right: tuple[bool, ...]
    confidence: tuple[Decimal, ...]
    predicted: tuple[int, ...] = ()

    @staticmethod
    def of(labels: Sequence[int], predicted: Sequence[int], confidence: Sequence[str]) -> Answers:
        """Make answers from lists of equal length. Confidences are decimal strings."""
        right = tuple(a == b for a, b in zip(labels, predicted, strict=True))
        return Answers(right, tuple(Decimal(value) for value in confidence), tuple(predicted))

    @property
    def total(self) -> int:
        return len(self.right)

    @cached_property
    def hits(self) -> Counts:
        """An array of shape (total,): 1 for a right answer, 0 for a wrong answer."""
        return np.array(self.right, dtype=np.int64)

    @cached_property
    def correct(self) -> int:
        return sum(self.right)

    @cached_property
    def classes(self) -> Counts:
        """The predicted classes, of shape (total,); empty if the classes are unknown."""
        return np.array(self.predicted, dtype=np.int64)


class Ranks(NamedTuple):
    """The confidences of both splits as ranks, for exact comparisons.

    A rank is an index in `levels`, which holds 0 and all confidences in ascending order.
    """

    levels: list[Decimal]
    tuning: Counts
    test: Counts

    def of(self, level: Decimal) -> int:
        """Return the rank of a confidence level."""
        return bisect_left(self.levels, level)


@dataclass(frozen=True)
class Evaluated:
    """A model's answers on the tuning and test items.

    `output` names the output that gives the confidence. `bound` computes the lower bound for a given error; None if the
    metric counts right answers.
    """

    tuning: Answers
    test: Answers
    output: str
    bound: Callable[[Fraction], Fraction] | None = None

    @cached_property
    def ranks(self) -> Ranks:
        levels = sorted({Decimal(0), *self.tuning.confidence, *self.test.confidence})
        place = {level: index for index, level in enumerate(levels)}
        parts = ([place[one] for one in part.confidence] for part in (self.tuning, self.test))
        return Ranks(levels, *(np.array(part, dtype=np.int64) for part in parts))

    @cached_property
    def order(self) -> Counts:
        """The indices of the tuning items in ascending order of confidence."""
        return np.argsort(self.ranks.tuning, kind="stable")

    @cached_property
    def steps(self) -> Counts:
        """The distinct confidences of the tuning items, as ascending ranks."""
        return np.unique(self.ranks.tuning)

    @cached_property
    def grid(self) -> tuple[Counts, Counts]:
        """At most LEVELS thresholds, and the number of thresholds that each tuning item's confidence reaches."""
        most = min(LEVELS, len(self.steps))
        levels = self.steps[np.arange(1, most + 1) * len(self.steps) // most - 1]
        return levels, np.searchsorted(levels, self.ranks.tuning, side="right")


class Counted(NamedTuple):
    """The result of a model or combination on one split.

    `correct` is the number of right answers. `reached` is the number of items that reached each later program of a
    cascade.
    """

    correct: int
    total: int
    reached: tuple[int, ...] = ()

    def elsewhere(self, total: int) -> Counted:
        """Scale the counts to another number of items, with pessimistic rounding."""
        fewer = self.correct * total // self.total
        return Counted(fewer, total, tuple(-(-one * total // self.total) for one in self.reached))


@dataclass(frozen=True)
class Judged:
    """The counts on the test items, and the resulting bounds.

    `accuracy` is a lower bound. `shares` are upper bounds of the shares of items that reach each later program of a
    cascade.
    """

    counted: Counted
    accuracy: Fraction
    shares: tuple[Fraction, ...] = ()


def judge(counted: Counted, error: Fraction) -> Judged:
    """Return the bounds of a model or combination. Each bound is wrong with probability at most `error`."""
    accuracy = lower_bound(counted.correct, counted.total, error)
    return Judged(counted, accuracy, tuple(upper_bound(one, counted.total, error) for one in counted.reached))


def judge_single(model: Evaluated, error: Fraction) -> Judged:
    """Return the bounds of a single model. Each bound is wrong with probability at most `error`."""
    judged = judge(count_single(model, on_tuning=False), error)
    return replace(judged, accuracy=model.bound(error)) if model.bound else judged


def count_single(model: Evaluated, *, on_tuning: bool) -> Counted:
    """Count the right answers of one model."""
    part = model.tuning if on_tuning else model.test
    return Counted(part.correct, part.total)


def count_cascade(models: Sequence[Evaluated], thresholds: Sequence[Decimal], *, on_tuning: bool) -> Counted:
    """Count the right answers of a cascade, and the items that reach each later model."""
    parts = [model.tuning if on_tuning else model.test for model in models]
    hits, reaching, reached = parts[0].hits, np.ones(parts[0].total, dtype=bool), []
    for model, threshold, following in zip(models, thresholds, parts[1:], strict=False):
        ranks = model.ranks.tuning if on_tuning else model.ranks.test
        reaching = reaching & (ranks < model.ranks.of(threshold))
        hits = np.where(reaching, following.hits, hits)
        reached.append(int(reaching.sum()))
    return Counted(int(hits.sum()), parts[0].total, tuple(reached))


def count_ensemble(models: Sequence[Evaluated], *, on_tuning: bool) -> Counted:
    """Count the right answers of a vote of three models. If all models disagree, the first model's answer counts."""
    first, second, third = (model.tuning if on_tuning else model.test for model in models)
    hits = np.where(second.classes == third.classes, second.hits, first.hits)
    return Counted(int(hits.sum()), first.total)
