"""What classifiers answered on items set aside, alone and together, and what that proves about them.

Everything that is chosen (thresholds, an order, which combinations are judged) is chosen on one part of the items and judged
on another, which nothing was chosen on. When several bounds are made of the same items, each is made at the error divided
by their number, so that all hold together (Bonferroni).
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
LEVELS = 50  # confidences that are tried for each of the two thresholds of a cascade of three


@dataclass(frozen=True)
class Answers:
    """Per item of one part: whether the answer was right, the confidence with which it was given, and the answer itself
    where it is known as a class number (`predicted`, else empty)."""

    right: tuple[bool, ...]
    confidence: tuple[Decimal, ...]
    predicted: tuple[int, ...] = ()

    @staticmethod
    def of(labels: Sequence[int], predicted: Sequence[int], confidence: Sequence[str]) -> Answers:
        """From labels, predictions and decimal strings, all of one length."""
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
        """How many answers are right."""
        return sum(self.right)

    @cached_property
    def classes(self) -> Counts:
        """The answers, shape (total,), where they are known."""
        return np.array(self.predicted, dtype=np.int64)


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

    @cached_property
    def order(self) -> Counts:
        """The items of the choosing part, the least sure first."""
        return np.argsort(self.ranks.choose, kind="stable")

    @cached_property
    def steps(self) -> Counts:
        """The different confidences of the choosing part, ascending, as places."""
        return np.unique(self.ranks.choose)

    @cached_property
    def grid(self) -> tuple[Counts, Counts]:
        """At most LEVELS of those, evenly among them with the largest included; and for each item of the choosing part how many
        of these it reaches: it goes on at those after."""
        most = min(LEVELS, len(self.steps))
        levels = self.steps[np.arange(1, most + 1) * len(self.steps) // most - 1]
        return levels, np.searchsorted(levels, self.ranks.choose, side="right")


class Counted(NamedTuple):
    """What models answered together on one part: right answers, and of a cascade how many items reached its second part and
    its third."""

    correct: int
    total: int
    reached: tuple[int, ...] = ()

    def elsewhere(self, total: int) -> Counted:
        """The same shares of another number of items, each rounded to the side that promises less."""
        fewer = self.correct * total // self.total
        return Counted(fewer, total, tuple(-(-one * total // self.total) for one in self.reached))


@dataclass(frozen=True)
class Judged:
    """What is proven: the counts, and bounds that each hold at the stated error. `shares` bound from above the shares of items
    that reach the second and third part of a cascade."""

    counted: Counted
    accuracy: Fraction
    shares: tuple[Fraction, ...] = ()


def judge(counted: Counted, error: Fraction) -> Judged:
    """The bounds of a single model, a cascade or an ensemble, each at `error`."""
    accuracy = lower_bound(counted.correct, counted.total, error)
    return Judged(counted, accuracy, tuple(upper_bound(one, counted.total, error) for one in counted.reached))


def judge_single(model: Evaluated, error: Fraction) -> Judged:
    """One model alone; of a metric that is no share of right answers by that metric's own bound."""
    judged = judge(count_single(model, choosing=False), error)
    return replace(judged, accuracy=model.bound(error)) if model.bound else judged


def count_single(model: Evaluated, *, choosing: bool) -> Counted:
    """One model alone."""
    part = model.choose if choosing else model.evaluate
    return Counted(part.correct, part.total)


def count_cascade(models: Sequence[Evaluated], thresholds: Sequence[Decimal], *, choosing: bool) -> Counted:
    """Models one after another: each answers what those before it were less sure of than their thresholds."""
    parts = [model.choose if choosing else model.evaluate for model in models]
    hits, reaching, reached = parts[0].hits, np.ones(parts[0].total, dtype=bool), []
    for model, threshold, following in zip(models, thresholds, parts[1:], strict=False):
        ranks = model.ranks.choose if choosing else model.ranks.evaluate
        reaching = reaching & (ranks < model.ranks.of(threshold))
        hits = np.where(reaching, following.hits, hits)
        reached.append(int(reaching.sum()))
    return Counted(int(hits.sum()), parts[0].total, tuple(reached))


def count_ensemble(models: Sequence[Evaluated], *, choosing: bool) -> Counted:
    """Three models that all see every item: the answer that two of them give, else that of the first."""
    first, second, third = (model.choose if choosing else model.evaluate for model in models)
    hits = np.where(second.classes == third.classes, second.hits, first.hits)
    return Counted(int(hits.sum()), first.total)
