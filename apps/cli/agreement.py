"""Compares the values that a document states with computed values, and recomputes the document's ratings."""

from __future__ import annotations

from typing import Any

from apps.pricing.rating import Counts, PriceBookDocument, Rating, RatingError, Terms, rate, rate_contract_minimum
from apps.pricing.rating.terms import charged_of, measured_of, periods_of


class Difference(Exception):
    """Raised if a stated value differs from the computed value."""

    def __init__(self, place: str, stated: object, computed: object) -> None:
        super().__init__(f"{place}: the document says {stated}, computed here is {computed}")
        self.place, self.stated, self.computed = place, stated, computed


class Unreadable(Exception):
    """Raised if the document cannot be verified."""


def same(place: str, stated: object, computed: object) -> None:
    """Raise Difference unless the stated and the computed value have the same type and are equal."""
    if stated != computed or type(stated) is not type(computed):
        raise Difference(place, stated, computed)


def books_given(document: dict[str, Any], books: dict[str, PriceBookDocument]) -> None:
    """Raise Unreadable if price books that the document needs are missing. The message names all of them."""
    parts = [*document["lines"], *(one["basis"] for one in document.get("adjustments", []))]
    ratings = [part["rating"] for part in parts if "rating" in part]
    versions = {book.version for book in books.values()}
    missing = {one["book_version"] for one in ratings if one["book_digest"] not in books} - versions
    if missing:
        named = " and ".join(f"price book {version}" for version in sorted(missing))
        given = " and ".join(f"price book {version}" for version in sorted(versions))
        raise Unreadable(
            f"The document was priced with {named}, but you gave {given or 'no price book'}. Give {named} too."
        )


def rated(book: PriceBookDocument, stated: dict[str, Any]) -> Rating:
    """Recompute a rating from its stated inputs. Raises Unreadable if the price book has no price for these inputs."""
    charged = charged_of(stated)
    try:
        if charged is not None:
            return rate_contract_minimum(book=book, charged=charged, terms=Terms.from_json(stated["terms"]))
        return rate(
            book=book,
            counts=Counts.from_json(stated["counts"]),
            executions=stated["executions"],
            terms=Terms.from_json(stated["terms"]),
            unused=stated["unused"],
            missed=bool(stated.get("missed", False)),
            late=bool(stated.get("late", False)),
            measured=measured_of(stated),
            periods=periods_of(stated),
        )
    except RatingError as error:
        raise Unreadable(str(error)) from error


def steps_same(place: str, stated: list[dict[str, str]], computed: list[dict[str, str]]) -> None:
    """Raise Difference at the first stated step that differs from the computed step."""
    for mine, theirs in zip(computed, stated, strict=False):
        for key in ("name", "operation", "input", "factor", "result", "unit", "title", "rule"):
            same(f"{place}, step {mine['name']!r}, {key}", theirs[key], mine[key])
    same(f"{place}, number of steps", len(stated), len(computed))
