"""What a program costs before a quote is requested; the report page shows it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from apps.accounts.problems import Problem
from apps.compilation.models import Program
from apps.fleet.selectors import pools_for_target
from apps.pricing.rating import Counts, RatingError, Terms, rate
from apps.pricing.selectors import book_in_force, document_of

EXECUTIONS = 1000
KLASS = "standard"


def program_price(program: Program, now: datetime) -> dict[str, Any] | None:
    """The price of a thousand executions of a program in class standard on the pools of its target; None if it has no price."""
    pool = pools_for_target(program.target).first()
    if pool is None:
        return None
    try:
        book = document_of(book_in_force(at=now))
        rating = rate(
            book=book,
            counts=Counts(operations=program.operations, cycles=program.interval_cycles),
            executions=EXECUTIONS,
            terms=Terms(pool.processor_class, program.precision, KLASS, instant=now),
        )
    except (Problem, RatingError):
        return None
    return {"amount": rating.amount, "currency": rating.currency, "book": book.version, "klass": KLASS}
