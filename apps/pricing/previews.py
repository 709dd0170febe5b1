"""The price of a program, for the report page."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.accounts.problems import Problem
from apps.compilation.models import Program
from apps.fleet.selectors import pools_for_target
from apps.pricing.rating import Counts, RatingError, Terms, class_default, rate
from apps.pricing.selectors import book_in_force, document_of

EXECUTIONS = 1000


def program_price(program: Program, now: datetime) -> dict[str, Any] | None:
    """Return the price of a thousand executions in the default class; None if there is no price."""
    pool = pools_for_target(program.target).first()
    if pool is None:
        return None
    try:
        book = document_of(book_in_force(at=now))
        klass = class_default(book)
        rating = rate(
            book=book,
            counts=Counts(operations=program.operations, cycles=program.interval_cycles),
            executions=EXECUTIONS,
            terms=Terms(pool.processor_class, program.precision, klass, instant=now),
        )
    except (Problem, RatingError):
        return None
    return {"amount": rating.amount, "currency": rating.currency, "book": book.version, "klass": klass}
