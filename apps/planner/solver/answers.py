"""The answers of models on held-out items, alone and combined, and the bounds that follow from them.

Thresholds, orders and combinations are chosen on the tuning items and tested on the test items. The test items play no
part in any choice. When several bounds come from the same items, each is computed at the error divided by the number of
bounds, so that all hold together (Bonferroni).
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
    """The answers on the items of one split: whether each is right, its confidence, and the predicted class.

    `predicted` is empty if the classes are unknown.
    """

    right: tuple[bool, ...]
    confidence: tuple[Decimal, ...]
    predicted: tuple[int, ...] = ()

    @staticmethod
    def of(labels: Sequence[int], predicted: Sequence[int], confidence: Sequence[str]) -> Answers:
        """Make answers from labels, predictions and confidences. All lists have the same length; confidences are
        decimal strings.
        """
        right = tuple(a == b for a, b in zip(labels, predicted, strict=True))
        return Answers(right, tuple(Decimal(value) for value in confidence), tuple(predicted))

    @property
    def total(self) -> int:
        return len(self.right)

    @cached_property
    def hits(self) -> Counts:
        """An array of shape (total,): 1 for a right answer, 0 for a wrong one."""
        return np.array(self.right, dtype=np.int64)

    @cached_property
    def correct(self) -> int:
        """The number of right answers."""
        return sum(self.right)

    @cached_property
    def classes(self) -> Counts:
        """The predicted classes, of shape (total,); empty if they are unknown."""
        return np.array(self.predicted, dtype=np.int64)


class Ranks(NamedTuple):
    """The confidences of both splits as ranks, so that comparisons are exact.

    `levels` are 0 and all confidences that occur, in ascending order. A rank is an index in `levels`.
    """

    levels: list[Decimal]
    tuning: Counts
    test: Counts

    def of(self, level: Decimal) -> int:
        """Return the rank of a confidence level."""
        return bisect_left(self.levels, level)


@dataclass(frozen=True)
class Evaluated:
    """A model's answers on the tuning and test items. `output` is the output that gives its confidence.

    If the metric does not count right answers, `bound` computes the lower bound for a given error. Such a model has no
    `output` and is never combined.
    """

    tuning: Answers
    test: Answers
    output: str
    bound: Callable[[Fraction], Fraction] | None = None

    @cached_property
    def ranks(self) -> Ranks:
        """The confidences on both splits, as ranks."""
        levels = sorted({Decimal(0), *self.tuning.confidence, *self.test.confidence})
        place = {level: index for index, level in enumerate(levels)}
        parts = ([place[one] for one in part.confidence] for part in (self.tuning, self.test))
        return Ranks(levels, *(np.array(part, dtype=np.int64) for part in parts))

    @cached_property
    def order(self) -> Counts:
        """The indices of the tuning items, sorted by ascending confidence."""
        return np.argsort(self.ranks.tuning, kind="stable")

    @cached_property
    def steps(self) -> Counts:
        """The distinct confidences of the tuning items, as ascending ranks."""
        return np.unique(self.ranks.tuning)

    @cached_property
    def grid(self) -> tuple[Counts, Counts]:
        """At most LEVELS thresholds, and the number of them that each tuning item's confidence reaches.

        The thresholds are evenly chosen from `steps`, including the largest. At a threshold above its confidence, an
        item falls back to the next program.
        """
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
        """Scale the counts to another number of items, and round each in the pessimistic direction."""
        fewer = self.correct * total // self.total
        return Counted(fewer, total, tuple(-(-one * total // self.total) for one in self.reached))


@dataclass(frozen=True)
class Judged:
    """Counts on the test items, and the bounds that follow from them.

    `accuracy` is a lower bound. `shares` are upper bounds of the shares of items that reach each later program of a
    cascade.
    """

    counted: Counted
    accuracy: Fraction
    shares: tuple[Fraction, ...] = ()


def judge(counted: Counted, error: Fraction) -> Judged:
    """Return the bounds of a model, a cascade or an ensemble. Each bound is wrong with probability at most `error`."""
    accuracy = lower_bound(counted.correct, counted.total, error)
    return Judged(counted, accuracy, tuple(upper_bound(one, counted.total, error) for one in counted.reached))


def judge_single(model: Evaluated, error: Fraction) -> Judged:
    """Return the bounds of one model. The model's own bound is used if its metric does not count right answers."""
    judged = judge(count_single(model, on_tuning=False), error)
    return replace(judged, accuracy=model.bound(error)) if model.bound else judged


def count_single(model: Evaluated, *, on_tuning: bool) -> Counted:
    """Count the right answers of one model."""
    part = model.tuning if on_tuning else model.test
    return Counted(part.correct, part.total)


def count_cascade(models: Sequence[Evaluated], thresholds: Sequence[Decimal], *, on_tuning: bool) -> Counted:
    """Count the answers of a cascade.

    Each model answers the items for which the confidence of every earlier model is below its threshold.
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
    """Count the right answers of a vote of three models.

    The vote gives the answer on which any two models agree, or else the first model's answer.
    """
    first, second, third = (model.tuning if on_tuning else model.test for model in models)
    hits = np.where(second.classes == third.classes, second.hits, first.hits)
    return Counted(int(hits.sum()), first.total)
