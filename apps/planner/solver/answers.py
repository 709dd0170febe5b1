"""What classifiers answered on items set aside, alone and in pairs, and what that proves about them.

A threshold is chosen on one part of the items and judged on another, which nothing was chosen on. When several choices
are judged on the same items, each bound is made at the error divided by their number, so that all hold together
(Bonferroni).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apps.registry.confidence import lower_bound, successes_needed, upper_bound

Counts = npt.NDArray[np.int64]
ERROR = Fraction(1, 20)


@dataclass(frozen=True)
class Answers:
    """Per item of one part: whether the answer was right, and the confidence with which it was given."""

    right: tuple[bool, ...]
    confidence: tuple[Decimal, ...]

    @staticmethod
    def of(labels: Sequence[int], predicted: Sequence[int], confidence: Sequence[str]) -> Answers:
        """From labels, predictions and decimal strings, all of one length."""
        right = tuple(a == b for a, b in zip(labels, predicted, strict=True))
        return Answers(right, tuple(Decimal(value) for value in confidence))

    @property
    def total(self) -> int:
        return len(self.right)

    @cached_property
    def hits(self) -> Counts:
        """1 for a right answer, 0 for a wrong one, shape (total,)."""
        return np.array(self.right, dtype=np.int64)


class Ranks(NamedTuple):
    """Confidences as places in the sorted list of all that occur, and 0: comparing places compares them exactly."""

    levels: list[Decimal]
    choose: Counts
    evaluate: Counts

    def of(self, level: Decimal) -> int:
        """The place of a level."""
        return bisect_left(self.levels, level)


@dataclass(frozen=True)
class Evaluated:
    """A model's answers on the part to choose on and on the part to judge on; `output` gives its confidence. `bound`: the
    lower bound by its error, where the metric is no share of right answers; such a model stands alone, without an output."""

    choose: Answers
    evaluate: Answers
    output: str
    bound: Callable[[Fraction], Fraction] | None = None

    @cached_property
    def ranks(self) -> Ranks:
        """The confidences of both parts."""
        levels = sorted({Decimal(0), *self.choose.confidence, *self.evaluate.confidence})
        place = {level: index for index, level in enumerate(levels)}
        parts = ([place[one] for one in part.confidence] for part in (self.choose, self.evaluate))
        return Ranks(levels, *(np.array(part, dtype=np.int64) for part in parts))


@dataclass(frozen=True)
class Judged:
    """What is proven of a choice: counts on the judging part, and bounds that hold at the stated error."""

    correct: int
    total: int
    accuracy: Fraction
    escalated: int = 0
    share: Fraction = Fraction(0)
    threshold: Decimal | None = None


def judge_single(model: Evaluated, error: Fraction) -> Judged:
    """One model alone; `accuracy` is its lower bound."""
    correct = sum(model.evaluate.right)
    total = model.evaluate.total
    return Judged(correct, total, model.bound(error) if model.bound else lower_bound(correct, total, error))


def choose_threshold(first: Evaluated, second: Evaluated, wanted: Fraction | None, error: Fraction) -> Decimal:
    """The lowest threshold that should reach `wanted` on the judging part, seen from the choosing part alone.

    The second model answers what the first is less sure of than the threshold. "Should reach": with the share of right
    answers seen here, the bound over there would do. When none does, or nothing is wanted, the one with the most right
    answers, and of equals the lowest (fewest items go on).
    """
    here, there = first.choose.total, first.evaluate.total
    order = np.argsort(first.ranks.choose)
    gains = (second.choose.hits - first.choose.hits)[order]
    right = int(first.choose.hits.sum()) + np.concatenate(([0], np.cumsum(gains)))  # by how many items go on
    thresholds = np.unique(np.append(first.ranks.choose, first.ranks.of(Decimal(0))))
    right = right[np.searchsorted(first.ranks.choose[order], thresholds)]
    needed = None if wanted is None else successes_needed(wanted, there, error)
    enough = right * there // here >= needed if needed is not None else np.zeros(len(right), dtype=bool)
    best = int(np.argmax(enough)) if enough.any() else int(np.argmax(right))
    return first.ranks.levels[int(thresholds[best])]


def judge_cascade(first: Evaluated, second: Evaluated, wanted: Fraction | None, error: Fraction) -> Judged:
    """A cascade with its threshold chosen on one part and judged on the other.

    `share` bounds from above the share of items that go on; half of the error is kept for it.
    """
    half = error / 2
    threshold = choose_threshold(first, second, wanted, half)
    goes_on = first.ranks.evaluate < first.ranks.of(threshold)
    correct = int(np.where(goes_on, second.evaluate.hits, first.evaluate.hits).sum())
    escalated, total = int(goes_on.sum()), first.evaluate.total
    bound, share = lower_bound(correct, total, half), upper_bound(escalated, total, half)
    return Judged(correct, total, bound, escalated, share, threshold)
