"""Recomputes the adjustments of an invoice under version 1 of the rules."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from apps.cli.agreement import Difference, Unreadable, rated, same, steps_same
from apps.pricing.rating import PriceBookDocument, Rating, decimal_text, exact_sum, free_tier, minimum_topup
from apps.pricing.rating.decimals import subtract


def adjustment_verify(document: dict[str, Any], one: dict[str, Any], books: dict[str, PriceBookDocument]) -> str:
    """Check one adjustment and return a sentence about the adjustment. Raises Difference or Unreadable."""
    place = f"adjustment {one['number']}"
    if one["kind"] == "minimum":
        return _minimum(place, document, one, books)
    if one["kind"] == "free-tier":
        return _free(place, document, one, books)
    if one["kind"] == "shortfall":
        return _shortfall(place, one)
    if one["kind"] in ("credit", "guarantee"):
        return _credit(place, document, one, books)
    raise Unreadable(f"{place} is of the kind {one['kind']!r}, which this version does not know.")


def _book(place: str, digest: str, books: dict[str, PriceBookDocument]) -> PriceBookDocument:
    if digest not in books:
        raise Difference(f"{place}, price book", digest, ", ".join(books) or "none given")
    return books[digest]


def _minimum(place: str, document: dict[str, Any], one: dict[str, Any], books: dict[str, PriceBookDocument]) -> str:
    basis = one["basis"]
    book = _book(place, basis["book_digest"], books)
    free = [Decimal(other["amount"]) for other in document["adjustments"] if other["kind"] == "free-tier"]
    net = exact_sum([*(Decimal(line["amount"]) for line in document["lines"]), *free])
    same(f"{place}, minimum of the book", basis["minimum"], decimal_text(book.minimum_charge))
    same(f"{place}, net of the lines", basis["net"], decimal_text(net))
    counted = [net, Decimal(basis["invoiced_before"])]
    said = (
        f"{place}: the book's minimum of {basis['minimum']} less {basis['net']} and {basis['invoiced_before']} before"
    )
    if "shortfall" in basis:  # invoices without this key do not count commitment shortfalls
        short = exact_sum(Decimal(other["amount"]) for other in document["adjustments"] if other["kind"] == "shortfall")
        same(f"{place}, shortfall of commitments", basis["shortfall"], decimal_text(short))
        counted.append(short)
        said += f" and {basis['shortfall']} of commitments" if short else ""
    missing = minimum_topup(book, exact_sum(counted))
    same(f"{place}, amount", one["amount"], decimal_text(missing))
    return said


def _free(place: str, document: dict[str, Any], one: dict[str, Any], books: dict[str, PriceBookDocument]) -> str:
    basis = one["basis"]
    book = _book(place, basis["book_digest"], books)
    ratings = [Rating.from_json(line["rating"]) for line in document["lines"]]
    shares = free_tier(book, ratings, taken=basis["taken"])
    same(f"{place}, free operations", basis["operations"], sum(share.operations for share in shares))
    amount = exact_sum(share.amount for share in shares).copy_negate()
    same(f"{place}, amount", one["amount"], decimal_text(amount))
    return f"{place}: {basis['operations']:,} free operations of the lines come to {one['amount']}"


def _shortfall(place: str, one: dict[str, Any]) -> str:
    basis = one["basis"]
    missing = max(subtract(Decimal(basis["minimum"]), Decimal(basis["used"])), Decimal(0))
    same(f"{place}, amount", one["amount"], decimal_text(missing))
    return f"{place}: {basis['minimum']} promised less {basis['used']} used from {basis['start']} to {basis['end']}"


def _credit(place: str, document: dict[str, Any], one: dict[str, Any], books: dict[str, PriceBookDocument]) -> str:
    # The amount used is the smaller of two amounts: the remaining credit, and the remaining charge of the invoice.
    basis = one["basis"]
    if "granted" not in basis:
        raise Unreadable(f"{place} does not state what was granted and what of it was left.")
    granted, left = Decimal(basis["granted"]), Decimal(basis["left"])
    if not 0 < left <= granted:
        raise Difference(f"{place}, what was left", basis["left"], f"more than 0 and at most {basis['granted']}")
    said = f"{place}: {basis['left']} of a credit of {basis['granted']} were left"
    if "rating" in basis:
        rating = rated(_book(place, basis["rating"]["book_digest"], books), basis["rating"])
        steps_same(place, basis["rating"]["steps"], rating.to_json()["steps"])
        same(f"{place}, credit for missed work", basis["granted"], decimal_text(rating.amount))
        said += f", which {len(rating.steps)} steps give"
    before = [Decimal(other["amount"]) for other in document["adjustments"] if other["number"] < one["number"]]
    lines = [Decimal(line["amount"]) for line in document["lines"]]
    asked = exact_sum([*lines, Decimal(document["carried_in"]), *before])
    same(f"{place}, amount", one["amount"], decimal_text(min(left, asked).copy_negate()))
    return said
