"""The format of a metric's score: its name, its unit, and whether lower is better. Pure.

The planner compares shares from 0 to 1, where higher is better. The share of a mean error is 1 - error / limit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from apps import figures
from apps.planner.metrics import MACRO_F1, MEAN_ERROR

DEFAULT = "accuracy"
PLACES = 2  # of a share in per cent; an error has as many relative to its limit
_ERROR = re.compile(re.escape(MEAN_ERROR) + r" ([0-9.]+)(.*)", re.DOTALL)
_SHARES = (("within ", "share of items within "), ("at least ", "share of items with "))


@dataclass(frozen=True)
class ScoreFormat:
    """The format of a score.

    `limit` is the cap of a mean error. `counts_items` is True if the score is a share of right answers.
    """

    name: str
    limit: Fraction | None = None
    counts_items: bool = True

    @property
    def side(self) -> str:
        return "at least" if self.limit is None else "at most"

    @property
    def title(self) -> str:
        return self.name[0].upper() + self.name[1:]

    @property
    def heading(self) -> str:
        return f"{self.title}, {self.side}"

    @property
    def named(self) -> str:
        return f"{'an' if self.name[0] in 'ae' else 'a'} {self.name}"

    def text(self, share: Fraction | str, places: int = PLACES) -> str:
        """Return a share as a percentage. For a mean error, return the error instead, rounded up."""
        if self.limit is None:
            return figures.percent_format(share, places)
        error = self.limit * (1 - Fraction(share))
        decimals = places + 2
        while self.limit * 10 ** (decimals - places - 2) < 1:
            decimals += 1
        shown = figures.fixed(Fraction(ceil(error * 10**decimals), 10**decimals), decimals)
        return shown.rstrip("0").rstrip(".")

    def share_of(self, stated: Fraction) -> Fraction:
        """Return the share for a stated percentage or error."""
        return stated / 100 if self.limit is None else 1 - stated / self.limit

    @property
    def range_sentence(self) -> str:
        if self.limit is None:
            return f"Enter {self.named} between 0 and 1, for example 0.97."
        return f"Enter {self.named} above 0 and below the limit of {self.text('0')}."

    def shortfall_sentence(self, found: Fraction, wanted: Fraction) -> str:
        """Say that `found` is worse than `wanted`, with enough decimal places to tell the two values apart."""
        pairs = [(self.text(found, places), self.text(wanted, places)) for places in range(PLACES, 9)]
        proven, required = next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])
        if self.limit is None:
            return f"The proven {self.name} is {proven}; {required} is required."
        return f"The proven {self.name} is at most {proven}; at most {required} is required."


def score_format_of(title: str) -> ScoreFormat:
    """Return the format for a metric's stored title, which may end with " of OUTPUT"."""
    error = _ERROR.fullmatch(title)
    if error is not None:
        return ScoreFormat(f"mean error{error[2]}", Fraction(error[1]), counts_items=False)
    for begin, name in _SHARES:
        if title.startswith(begin):
            return ScoreFormat(name + title.removeprefix(begin))
    return ScoreFormat(title, counts_items=not title.startswith(MACRO_F1))
