"""The answers of models on held-out items, alone and combined, and the bounds that follow from them.

Thresholds, orders and the combinations to test are chosen on the tuning items and tested on the test items, which
played no part in any choice. When several bounds come from the same items, each is computed at the error divided by
their number, so that all hold together (Bonferroni).
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
    """For each item of one split: whether the answer was right, its confidence, and the predicted class (`predicted`;
    empty if unknown).
    """

    right: tuple[bool, ...]
    confidence: tuple[Decimal, ...]
    predicted: tuple[int, ...] = ()

    @staticmethod
    def of(labels: Sequence[int], predicted: Sequence[int], confidence: Sequence[str]) -> Answers:
        """Make answers from labels, predictions and confidences. Confidences are decimal strings; all lists have the
        same length.
        """
        right = tuple(a == b for a, b in zip(labels, predicted, strict=True))
        return Answers(right, tuple(Decimal(value) for value in confidence), tuple(predicted))

    @property
    def total(self) -> int:
        return len(self.right)

    @cached_property
    def hits(self) -> Counts:
        """1 for a right answer, 0 for a wrong one, shape (total,)."""
        return np.array(self.right, dtype=np.int64)

    @cached_property
    def correct(self) -> int:
        """The number of right answers."""
        return sum(self.right)

    @cached_property
    def classes(self) -> Counts:
        """The predicted classes, shape (total,); empty if they are not known."""
        return np.array(self.predicted, dtype=np.int64)


class Ranks(NamedTuple):
    """The rank of each confidence in the sorted list of 0 and all confidences that occur, so that comparisons are exact."""

    levels: list[Decimal]
    tuning: Counts
    test: Counts

    def of(self, level: Decimal) -> int:
        """Return the rank of a level."""
        return bisect_left(self.levels, level)


@dataclass(frozen=True)
class Evaluated:
    """A model's answers on the tuning and test items. `output` is the output that gives its confidence.

    `bound` maps an error to the lower bound if the metric is not a share of right answers; such a model has no output and
    is never combined.
    """

    tuning: Answers
    test: Answers
    output: str
    bound: Callable[[Fraction], Fraction] | None = None

    @cached_property
    def ranks(self) -> Ranks:
        """The confidences on both splits."""
        levels = sorted({Decimal(0), *self.tuning.confidence, *self.test.confidence})
        place = {level: index for index, level in enumerate(levels)}
        parts = ([place[one] for one in part.confidence] for part in (self.tuning, self.test))
        return Ranks(levels, *(np.array(part, dtype=np.int64) for part in parts))

    @cached_property
    def order(self) -> Counts:
        """The tuning items by ascending confidence."""
        return np.argsort(self.ranks.tuning, kind="stable")

    @cached_property
    def steps(self) -> Counts:
        """The distinct confidences of the tuning items as ranks, ascending."""
        return np.unique(self.ranks.tuning)

    @cached_property
    def grid(self) -> tuple[Counts, Counts]:
        """At most LEVELS thresholds, evenly chosen from `steps` and including the largest; and for each tuning item,
        the number of these thresholds that its confidence reaches. At any higher threshold, the item falls back.
        """
        most = min(LEVELS, len(self.steps))
        levels = self.steps[np.arange(1, most + 1) * len(self.steps) // most - 1]
        return levels, np.searchsorted(levels, self.ranks.tuning, side="right")


class Counted(NamedTuple):
    """The result of a combination on one split: right answers, and how many items reached each later program of a cascade."""

    correct: int
    total: int
    reached: tuple[int, ...] = ()

    def elsewhere(self, total: int) -> Counted:
        """Scale the counts to another number of items. Each is rounded in the pessimistic direction."""
        fewer = self.correct * total // self.total
        return Counted(fewer, total, tuple(-(-one * total // self.total) for one in self.reached))


@dataclass(frozen=True)
class Judged:
    """Counts on the test items, and the bounds that follow from them.

    `accuracy` is a lower bound; `shares` are upper bounds of the items that reach the later programs of a cascade.
    """

    counted: Counted
    accuracy: Fraction
    shares: tuple[Fraction, ...] = ()


def judge(counted: Counted, error: Fraction) -> Judged:
    """Return the bounds of a single model, a cascade or an ensemble, each wrong with probability at most `error`."""
    accuracy = lower_bound(counted.correct, counted.total, error)
    return Judged(counted, accuracy, tuple(upper_bound(one, counted.total, error) for one in counted.reached))


def judge_single(model: Evaluated, error: Fraction) -> Judged:
    """Return the bound of one model; a metric that is not a share of right answers has its own bound."""
    judged = judge(count_single(model, on_tuning=False), error)
    return replace(judged, accuracy=model.bound(error)) if model.bound else judged


def count_single(model: Evaluated, *, on_tuning: bool) -> Counted:
    """Count the right answers of one model."""
    part = model.tuning if on_tuning else model.test
    return Counted(part.correct, part.total)


def count_cascade(models: Sequence[Evaluated], thresholds: Sequence[Decimal], *, on_tuning: bool) -> Counted:
    """Count a cascade: each model answers the items for which the confidences of the models before it stayed below
    their thresholds.
    """
    parts = [model.tuning if on_tuning else model.test for model in models]
    hits, reaching, reached = parts[0].hits, np.ones(parts[0].total, dtype=bool), []
    for model, threshold, following in zip(models, thresholds, parts[1:], strict=False):
        ranks = model.ranks.tuning if on_tuning else model.ranks.test
        reaching = reaching & (ranks < model.ranks.of(threshold))
        hits = np.where(reaching, following.hits, hits)
        reached.append(int(reaching.sum()))
    return Counted(int(hits.sum()), parts[0].total, tuple(reached))


def count_ensemble(models: Sequence[Evaluated], *, on_tuning: bool) -> Counted:
    """Count a vote of three models: the answer on which any two agree, or else the first model's."""
    first, second, third = (model.tuning if on_tuning else model.test for model in models)
    hits = np.where(second.classes == third.classes, second.hits, first.hits)
    return Counted(int(hits.sum()), first.total)
