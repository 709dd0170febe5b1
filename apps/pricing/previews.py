"""Prices of a program before anybody asks for a quote: of executions, and of tokens for a program that continues a sequence.

All of them are ratings, as a quote's lines are.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.accounts.problems import Problem
from apps.compilation.models import Program
from apps.compilation.selectors import program_report, programs_of_sequence
from apps.fleet.selectors import pools_for_target
from apps.pricing.models import PriceBook
from apps.pricing.rating import Counts, Rating, RatingError, Terms, class_default, rate
from apps.pricing.selectors import book_in_force, document_of

EXECUTIONS = 1000


@dataclass(frozen=True)
class TokenPrice:
    """What a token costs: the rating of EXECUTIONS executions of a program that adds several tokens in each."""

    program: Program
    rating: Rating

    @property
    def kind(self) -> str:
        """ "decode" for one token in an execution, "prefill" for several."""
        return str(self.program.sequence["kind"])

    @property
    def each(self) -> int:
        """The tokens that one execution adds."""
        return int(self.program.sequence["tokens"])

    @property
    def tokens(self) -> int:
        """The tokens that cost `amount`."""
        return self.rating.executions * self.each

    @property
    def amount(self) -> Decimal:
        return self.rating.amount


def processor_class_of(program: Program) -> str:
    """Return the price class of the processor, as the program's report states it."""
    return str(program_report(program)["headline"]["price_class"])


def program_rating(program: Program, *, book: PriceBook, processor_class: str, now: datetime) -> Rating:
    """Rate EXECUTIONS executions in the book's default class. Raises RatingError if the book has no price for them."""
    document = document_of(book)
    return rate(
        book=document,
        counts=Counts(operations=program.operations, cycles=program.interval_cycles),
        executions=EXECUTIONS,
        terms=Terms(processor_class, program.precision, class_default(document), instant=now),
    )


def token_prices(program: Program, *, book: PriceBook, processor_class: str, now: datetime) -> list[TokenPrice]:
    """Return the price of a token for the program and for those that continue the same sequence with other numbers of tokens,
    decode first; empty if the program continues none. Raises RatingError.
    """
    found = programs_of_sequence(program)
    return [TokenPrice(one, program_rating(one, book=book, processor_class=processor_class, now=now)) for one in found]


def program_price(program: Program, now: datetime) -> dict[str, Any] | None:
    """Return the price of a thousand executions in the default class; None if there is no price."""
    pool = pools_for_target(program.target).first()
    if pool is None:
        return None
    try:
        book = book_in_force(at=now)
        rating = program_rating(program, book=book, processor_class=pool.processor_class, now=now)
    except (Problem, RatingError):
        return None
    return {"amount": rating.amount, "currency": rating.currency, "book": book.version, "klass": rating.terms.klass}
