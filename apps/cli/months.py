"""Recomputes the adjustments and totals of an invoice under version 2 of the rules.

The rules are in docs/reference/invoice-amounts.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.cli.agreement import Difference, Unreadable, rated, same, steps_same
from apps.pricing.rating import (
    Eligible,
    Free,
    Fund,
    Held,
    PriceBookDocument,
    Rating,
    asked_of,
    credits_due,
    decimal_text,
    digest_of,
    eligible_of,
    exact_sum,
    free_due,
    minimum_due,
    month_end,
    month_start,
    multiply,
    shares_of,
    tax_of,
)
from apps.pricing.rating.decimals import subtract
from apps.pricing.rating.months import MICROSECOND, Uses

NOTHING = Decimal(0)


class MonthsCheck:
    """Checks one invoice under version 2 of the rules. Raises Difference or Unreadable."""

    def __init__(self, document: dict[str, Any], books: dict[str, PriceBookDocument]) -> None:
        self.document, self.books = document, books
        self.own: dict[datetime, Held] = {_instant(one["start"]): Held() for one in document["sections"]}
        for line in document["lines"]:
            section = self._own(f"line {line['number']}, section", line["section"])
            rating = Rating.from_json(line["rating"])
            section.use(Decimal(line["amount"]), eligible_of(books[rating.book_digest], rating))

    def run(self) -> Iterator[str]:
        """Check the whole document. Yield one sentence for each check."""
        kinds = {"free-tier": self._free, "shortfall": self._shortfall, "minimum": self._minimum}
        rows = self.document.get("adjustments", [])
        for one in rows:
            place = f"adjustment {one['number']}"
            if one["kind"] in kinds:
                yield kinds[one["kind"]](place, one)
            elif one["kind"] not in ("credit", "guarantee"):
                raise Unreadable(f"{place} is of the kind {one['kind']!r}, which this version does not know.")
        uses = self._uses()
        for one in rows:
            if one["kind"] in ("credit", "guarantee"):
                yield self._credit(f"adjustment {one['number']}", one, uses)
        same("credits that pay something and are on no line", sorted({credit for _, credit in uses}), [])
        for told in self.document["sections"]:
            computed = self.own[_instant(told["start"])].to_json(_instant(told["start"]))
            for key in computed:
                same(f"section {told['start']}, {key}", digest_of(told[key]), digest_of(computed[key]))

    def totals(self) -> Iterator[tuple[str, Decimal]]:
        """Yield the name and amount of each total, computed from the lines."""
        document, exponent = self.document, self.document["currency"]["exponent"]
        lines = [*document["lines"], *document.get("adjustments", [])]
        carried_in, amounts = Decimal(document["carried_in"]), [Decimal(line["amount"]) for line in lines]
        total = exact_sum([*amounts, carried_in])
        rounded = asked_of(total, before=Decimal(document["asked_before"]), exponent=exponent)
        yield "total", total
        yield "payable", rounded.payable
        yield "correction", rounded.correction
        yield "carried_out", rounded.carried
        taxed = multiply(rounded.payable, Decimal(document["tax_rate"]))
        before, into = Decimal(document["tax_asked_before"]), Decimal(document["tax_carried_in"])
        tax = tax_of(taxed, carried_in=into, before=before, exponent=exponent)
        yield "tax", tax.payable
        yield "tax_carried_out", tax.carried
        yield "due", exact_sum([rounded.payable, tax.payable])
        *shares, carried_share = shares_of(rounded.payable, [*amounts, carried_in], exponent=exponent)
        for number, (line, share) in enumerate(zip(lines, shares, strict=True)):
            word = "line" if number < len(document["lines"]) else "adjustment"
            same(f"{word} {line['number']}, share of the rounded total", line["share"], decimal_text(share))
        yield "carried_in_share", carried_share

    def _own(self, place: str, start: str) -> Held:
        if _instant(start) not in self.own:
            raise Difference(place, start, "none of the document's sections")
        return self.own[_instant(start)]

    def _last(self, place: str, instant: datetime) -> Held:
        fitting = [start for start in self.own if month_start(instant) <= start <= instant]
        if not fitting:
            raise Difference(place, str(instant), "in none of the document's sections")
        return self.own[max(fitting)]

    def _free(self, place: str, one: dict[str, Any]) -> str:
        basis = one["basis"]
        held, at = self._own(f"{place}, section", basis["section"]), _instant(basis["section"])
        ours = [part for start in self.own if month_start(at) <= start < at for part in self.own[start].eligible]
        earlier, beside = ([Eligible.from_json(part) for part in basis[key]] for key in ("earlier", "beside"))
        given = Free(basis["given"]["operations"], Decimal(basis["given"]["amount"]))
        held.free = free_due(
            earlier=[*earlier, *ours],
            section=[*beside, *held.eligible],
            given=given,
            most=held.usage,
            taken=basis["older"],
        )
        same(f"{place}, free operations", basis["operations"], held.free.operations)
        same(f"{place}, amount", one["amount"], decimal_text(held.free.amount.copy_negate()))
        return f"{place}: {basis['operations']:,} free operations of the lines come to {one['amount']}"

    def _shortfall(self, place: str, one: dict[str, Any]) -> str:
        basis = one["basis"]
        missing = max(subtract(Decimal(basis["minimum"]), Decimal(basis["used"])), NOTHING)
        same(f"{place}, amount", one["amount"], decimal_text(missing))
        held = self._last(f"{place}, end", _instant(basis["end"]) - MICROSECOND)
        held.shortfall = exact_sum([held.shortfall, missing])
        return f"{place}: {basis['minimum']} promised less {basis['used']} used from {basis['start']} to {basis['end']}"

    def _minimum(self, place: str, one: dict[str, Any]) -> str:
        basis, month = one["basis"], _instant(one["basis"]["month"])
        book = _book(place, basis["book_digest"], self.books)
        ours = [held for start, held in self.own.items() if month_start(start) == month]
        net = exact_sum(subtract(held.usage, held.free.amount) for held in ours)
        short = exact_sum(held.shortfall for held in ours)
        same(f"{place}, minimum of the book", basis["minimum"], decimal_text(book.minimum_charge))
        same(f"{place}, net of the lines", basis["net"], decimal_text(net))
        same(f"{place}, shortfall of commitments", basis["shortfall"], decimal_text(short))
        before, topped = Decimal(basis["invoiced_before"]), Decimal(basis["topped_before"])
        missing = minimum_due(book.minimum_charge, charged=exact_sum([net, short, before]), topped=topped)
        same(f"{place}, amount", one["amount"], decimal_text(missing))
        self._last(f"{place}, month", month_end(month) - MICROSECOND).minimum = missing
        said = f"{place}: the book's minimum of {basis['minimum']} less {basis['net']} and {basis['invoiced_before']} before"
        return said + (f" and {basis['shortfall']} of commitments" if short else "")

    def _uses(self) -> Uses:
        stated = self.document.get("credits")
        if not stated:
            return {}
        funds = [
            Fund(
                one["grant"],
                _instant(one["start"]),
                one["end"] and _instant(one["end"]),
                Decimal(one["amount"]),
                ended=_instant(one["ended"]) if "ended" in one else None,
            )
            for one in stated["funds"]
        ]
        return credits_due(
            own={start: held.charge for start, held in self.own.items()},
            beside={_instant(one["start"]): Decimal(one["charge"]) for one in stated["beside"]},
            used={(_instant(one["start"]), one["grant"]): Decimal(one["amount"]) for one in stated["used"]},
            funds=funds,
            left={one["grant"]: Decimal(one["left"]) for one in stated["funds"]},
        )

    def _credit(self, place: str, one: dict[str, Any], uses: Uses) -> str:
        basis = one["basis"]
        granted, left = Decimal(basis["granted"]), Decimal(basis["left"])
        if not 0 < left <= granted:
            raise Difference(f"{place}, what was left", basis["left"], f"more than 0 and at most {basis['granted']}")
        said = f"{place}: {basis['left']} of a credit of {basis['granted']} were left"
        if "rating" in basis:
            rating = rated(_book(place, basis["rating"]["book_digest"], self.books), basis["rating"])
            steps_same(place, basis["rating"]["steps"], rating.to_json()["steps"])
            same(f"{place}, credit for missed work", basis["granted"], decimal_text(rating.amount))
            said += f", which {len(rating.steps)} steps give"
        ours = sorted(key for key in uses if key[1] == basis["grant"])
        paid = [(section, uses.pop((section, credit))) for section, credit in ours]
        same(f"{place}, amount", one["amount"], decimal_text(exact_sum(amount for _, amount in paid).copy_negate()))
        told = [(_instant(part["start"]), Decimal(part["amount"])) for part in basis["sections"]]
        same(f"{place}, what it pays of which section", told, paid)
        return said


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _book(place: str, digest: str, books: dict[str, PriceBookDocument]) -> PriceBookDocument:
    if digest not in books:
        raise Difference(f"{place}, price book", digest, ", ".join(books) or "none given")
    return books[digest]
