"""What classifiers answered on items set aside, alone and in pairs, and what that proves about them.

A threshold is chosen on one part of the items and judged on another, which nothing was chosen on. When several choices
are judged on the same items, each bound is made at the error divided by their number, so that all hold together
(Bonferroni).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from apps.registry.confidence import lower_bound, upper_bound

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


@dataclass(frozen=True)
class Evaluated:
    """A model's answers on the part to choose on and on the part to judge on; `output` gives its confidence."""

    choose: Answers
    evaluate: Answers
    output: str


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
    return Judged(correct, model.evaluate.total, lower_bound(correct, model.evaluate.total, error))


def cascade_counts(first: Answers, second: Answers, threshold: Decimal) -> tuple[int, int]:
    """(items right, items that went on) when the second answers what the first is less sure of than `threshold`."""
    on = [confidence < threshold for confidence in first.confidence]
    right = sum(b if goes else a for a, b, goes in zip(first.right, second.right, on, strict=True))
    return right, sum(on)


def choose_threshold(first: Evaluated, second: Evaluated, wanted: Fraction | None, error: Fraction) -> Decimal:
    """The lowest threshold that should reach `wanted` on the judging part, seen from the choosing part alone.

    "Should reach": with the share of right answers seen here, the bound over there would do. When none does, or nothing
    is wanted, the one with the most right answers, and of equals the lowest (fewest items go on).
    """
    here, there = first.choose.total, first.evaluate.total
    best: tuple[int, Decimal] | None = None
    for threshold in sorted({Decimal(0), *first.choose.confidence}):
        right, _ = cascade_counts(first.choose, second.choose, threshold)
        if wanted is not None and lower_bound(right * there // here, there, error) >= wanted:
            return threshold
        if best is None or right > best[0]:
            best = (right, threshold)
    return best[1] if best else Decimal(0)


def judge_cascade(first: Evaluated, second: Evaluated, wanted: Fraction | None, error: Fraction) -> Judged:
    """A cascade with its threshold chosen on one part and judged on the other.

    `share` bounds from above the share of items that go on; half of the error is kept for it.
    """
    half = error / 2
    threshold = choose_threshold(first, second, wanted, half)
    correct, escalated = cascade_counts(first.evaluate, second.evaluate, threshold)
    total = first.evaluate.total
    bound, share = lower_bound(correct, total, half), upper_bound(escalated, total, half)
    return Judged(correct, total, bound, escalated, share, threshold)
