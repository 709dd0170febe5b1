"""Errors of the rating function. Each message says what to do."""

from __future__ import annotations


class RatingError(ValueError):
    """Raised if work can't be priced. The message says why, and what to do."""


class BookError(RatingError):
    """Raised if a price book can't be used. `problems` lists every fault with its path."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("The price book cannot be used: " + "; ".join(problems) + ".")
        self.problems = problems


class NotPriced(RatingError):
    """Raised if the book lacks a price. `missing` names the missing price."""

    def __init__(self, missing: str) -> None:
        super().__init__(f"Not priced: {missing}.")
        self.missing = missing
