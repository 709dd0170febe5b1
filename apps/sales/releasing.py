"""What of a contract is released late, and what becomes of it when the contract is amended.

Which unused executions are late follows from the contract's stored terms, the time that was ever reserved for it, what of it
is used, and the hour of the release (`apps/pricing/rating/late.py`). It is charged when the contract closes, whatever closes
it: at its end all that is unused is late, so that letting time pass is never cheaper than releasing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps.fleet.models import PoolKind
from apps.pricing.rating import (
    LateCancellation,
    PriceBookDocument,
    Rating,
    Terms,
    Unused,
    exact_sum,
    free_until,
    late_before,
    late_counts,
)
from apps.pricing.selectors import book_of_digest
from apps.sales.asks import Ask, asks_of, window_of_document
from apps.sales.documents import Priced
from apps.sales.facts import facts_of_line
from apps.sales.late import late_rating, late_term, seconds_each, volume_of, volume_rating
from apps.sales.models import Contract, ContractState
from apps.sales.selectors import ContractUsage, contract_usage, terms_line
from apps.timetable.selectors import periods_reserved


@dataclass(frozen=True)
class Takeover:
    """What the quote that amends a contract takes again: where, from when on, and of each program how many executions and
    what one of them costs when it is released late."""

    pool: str
    start: datetime
    lines: Mapping[str, tuple[int, Decimal]]


@dataclass(frozen=True)
class Release:
    """Executions (of a quota: operations) by program: those charged as late, and those that the amendment takes over."""

    late: Mapping[str, int] = field(default_factory=dict)
    carried: Mapping[str, int] = field(default_factory=dict)


def release_of(
    contract: Contract, *, now: datetime, usage: ContractUsage | None = None, takeover: Takeover | None = None
) -> Release:
    """What is late if the contract closes at `now`; nothing once it is closed, or where its terms know no such price."""
    term = late_term(contract.terms)
    if term is None or contract.state != ContractState.ACTIVE:
        return Release()
    late = _late(contract, term, now, usage or contract_usage(contract))
    carried = {}
    if takeover is not None and _stays(contract, takeover, late_before(now, notice_minutes=term.notice_minutes)):
        carried = {digest: _taken_over(contract, digest, count, takeover) for digest, count in late.items()}
    charged = {digest: count - carried.get(digest, 0) for digest, count in late.items()}
    return Release(_some(charged), _some(carried))


def late_due(contract: Contract, *, closed_at: datetime, carried: Mapping[str, int]) -> Decimal:
    """What a contract that closed at `closed_at` owes for late cancellation, of which the contract that amended it took
    `carried` over."""
    term = late_term(contract.terms)
    if term is None:
        return Decimal(0)
    late = _late(contract, term, closed_at, contract_usage(contract))
    left = {digest: count - carried.get(digest, 0) for digest, count in late.items()}
    return exact_sum(
        rest_rating(contract, digest, count, unused=True, late=True).amount for digest, count in left.items() if count
    )


def _late(contract: Contract, term: LateCancellation, released: datetime, usage: ContractUsage) -> dict[str, int]:
    """Late executions of each program: by its windows, and at least what was late already when it took them over."""
    unused = unused_counted(contract, usage)
    counts = late_counts(
        list(unused.values()),
        reserved=periods_reserved(contract.reservation_id),
        released=released,
        notice_minutes=term.notice_minutes,
    )
    before: dict[str, int] = contract.terms.get("amends", {}).get("carried", {})
    return {
        digest: min(one.count, max(count, before.get(digest, 0)))
        for (digest, one), count in zip(unused.items(), counts, strict=True)
    }


def release_free_until(contract: Contract, usage: ContractUsage) -> datetime | None:
    """Until when ending the contract costs nothing for late cancellation, as long as nothing more is used; None where a part
    is late in any case."""
    term = late_term(contract.terms)
    if term is None or contract.terms.get("amends", {}).get("carried"):
        return None
    unused = list(unused_counted(contract, usage).values())
    reserved = periods_reserved(contract.reservation_id)
    return free_until(unused, reserved=reserved, notice_minutes=term.notice_minutes)


def unused_counted(contract: Contract, usage: ContractUsage) -> dict[str, Unused]:
    """The unused executions of each line that late cancellation counts, by program, with the device time of one."""
    asks, is_host = asks_of(contract.terms), contract.terms["pool"]["kind"] == PoolKind.HOST
    each = seconds_each(asks, Fraction(contract.quote.document["device_seconds"]), is_host=is_host)
    left = {line.program_digest: line.unused for line in usage.lines}
    return {
        ask.facts.digest: Unused(max(left[ask.facts.digest] - volume_of(ask) + ask.counted, 0), seconds)
        for ask, seconds in zip(asks, each, strict=True)
    }


def takeover_of(priced: Priced) -> Takeover:
    """What an offer that amends a contract would take again."""
    lines = [(line.ask, line.worst.terms) for line in priced.lines]
    return _takeover(priced.book, lines, priced.pool.slug, priced.window.start)


def takeover_stored(document: dict[str, Any]) -> Takeover:
    """The same of a stored quote."""
    terms = [Terms.from_json(line["rating"]["terms"]) for line in document["lines"]]
    lines = list(zip(asks_of(document), terms, strict=True))
    book, start = book_of_digest(document["book"]["digest"]), window_of_document(document).start
    return _takeover(book, lines, document["pool"]["slug"], start)


def _takeover(book: PriceBookDocument, lines: list[tuple[Ask, Terms]], pool: str, start: datetime) -> Takeover:
    has_term = book.price_class(lines[0][1].klass).late is not None
    held = {
        ask.facts.digest: (ask.counted, late_rating(book, ask.facts, terms, 1).amount)
        for ask, terms in lines
        if has_term
    }
    return Takeover(pool, start, held)


def rest_rating(
    contract: Contract,
    program_digest: str,
    count: int,
    *,
    unused: bool,
    late: bool = False,
    book: PriceBookDocument | None = None,
) -> Rating:
    """The price of a line's rest by the frozen terms: if it were used, as what was reserved and not used, or what releasing
    it late adds to that.

    `count` are executions, or operations of a quota; `book` is the contract's, where the caller has read it.
    """
    line = terms_line(contract, program_digest)
    facts = facts_of_line(line)
    book = book or contract.book
    terms = Terms.from_json(line["rating"]["terms"])
    return volume_rating(book, facts, terms, count, unused=unused, late=late)


def _stays(contract: Contract, takeover: Takeover, late_before: datetime) -> bool:
    """Whether an amendment stays where the contract is: on its pool, and in a period that begins before what is released
    would be in good time. Moving work away releases its time."""
    return takeover.pool == contract.pool.slug and takeover.start < late_before


def _taken_over(contract: Contract, digest: str, count: int, takeover: Takeover) -> int:
    """An amendment keeps late executions of a program that it holds too, where they cost no less when they are released."""
    if digest not in takeover.lines or not count:
        return 0
    held, amount = takeover.lines[digest]
    return min(count, held) if amount >= rest_rating(contract, digest, 1, unused=True, late=True).amount else 0


def _some(counts: Mapping[str, int]) -> dict[str, int]:
    return {digest: count for digest, count in counts.items() if count}
