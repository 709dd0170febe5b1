"""How a metric's score is written: its name, its unit, and whether a lower one is better. Pure: no Django.

The planner holds one number against the requirement called `accuracy`: a share from 0 to 1 of which more is better. People
state and read what the metric measures. Of the mean error that is an error, of which less is better; its share is
1 - error / limit (apps/planner/metrics.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from apps import figures
from apps.planner.metrics import MACRO_F1, MEAN_ERROR

DEFAULT = "accuracy"
PLACES = 2  # of a share in per cent; an error is told as finely beside its limit
_ERROR = re.compile(re.escape(MEAN_ERROR) + r" ([0-9.]+)(.*)", re.DOTALL)
_SHARES = (("within ", "share of items within "), ("at least ", "share of items with "))


@dataclass(frozen=True)
class ScoreFormat:
    """`name` as within a sentence; `limit` of a mean error; `counts_items` where it is a share of right items."""

    name: str
    limit: Fraction | None = None
    counts_items: bool = True

    @property
    def side(self) -> str:
        """On which side of a promise it stays."""
        return "at least" if self.limit is None else "at most"

    @property
    def title(self) -> str:
        """As a label: "Accuracy", "Macro F1"."""
        return self.name[0].upper() + self.name[1:]

    @property
    def heading(self) -> str:
        """Over a column of bounds: "Accuracy, at least"."""
        return f"{self.title}, {self.side}"

    @property
    def named(self) -> str:
        """With its article: "an accuracy"."""
        return f"{'an' if self.name[0] in 'ae' else 'a'} {self.name}"

    def text(self, share: Fraction | str, places: int = PLACES) -> str:
        """A share as people read it: in per cent, or the error that it stands for, rounded up."""
        if self.limit is None:
            return figures.percent_format(share, places)
        error = self.limit * (1 - Fraction(share))
        decimals = places + 2
        while self.limit * 10 ** (decimals - places - 2) < 1:
            decimals += 1
        shown = figures.fixed(Fraction(ceil(error * 10**decimals), 10**decimals), decimals)
        return shown.rstrip("0").rstrip(".")

    def share_of(self, stated: Fraction) -> Fraction:
        """The share for what a person states: per cent, or an error."""
        return stated / 100 if self.limit is None else 1 - stated / self.limit

    @property
    def range_sentence(self) -> str:
        """What may be required."""
        if self.limit is None:
            return f"State {self.named} between 0 and 1, for example 0.97."
        return f"State {self.named} above 0 and below the limit {self.text('0')}."

    def shortfall_sentence(self, found: Fraction, wanted: Fraction) -> str:
        """That a promise falls short, with as many decimals as tell both apart."""
        pairs = [(self.text(found, places), self.text(wanted, places)) for places in range(PLACES, 9)]
        proven, required = next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])
        if self.limit is None:
            return f"Its {self.name} is proven only to {proven}, and {required} are required."
        return f"Its {self.name} is proven only to be at most {proven}, and at most {required} is required."


def score_format_of(title: str) -> ScoreFormat:
    """The measure of a metric's title, as evaluations and plans have it (`Metric.title`, with " of OUTPUT" or without)."""
    error = _ERROR.fullmatch(title)
    if error is not None:
        return ScoreFormat(f"mean error{error[2]}", Fraction(error[1]), counts_items=False)
    for begin, name in _SHARES:
        if title.startswith(begin):
            return ScoreFormat(name + title.removeprefix(begin))
    return ScoreFormat(title, counts_items=not title.startswith(MACRO_F1))
