"""The late release of a contract's unused work, and the transfer of this work to an amendment.

At the end of a contract, all unused work is late. Letting time pass is therefore never cheaper than ending the
contract.
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
from apps.sales.late_cancellation import late_rating, late_term, seconds_each, volume_of, volume_rating
from apps.sales.models import Contract, ContractState
from apps.sales.priced import Priced
from apps.sales.request_lines import QuoteRequestLine, request_lines_of, window_of_document
from apps.sales.selectors import ContractUsage, contract_usage, terms_line
from apps.sales.snapshots import snapshot_of_line
from apps.timetable.selectors import periods_reserved


@dataclass(frozen=True)
class Takeover:
    """The work of a quote that amends a contract.

    `lines`: for each program, the number of executions and the price of one late execution.
    """

    pool: str
    start: datetime
    lines: Mapping[str, tuple[int, Decimal]]


@dataclass(frozen=True)
class Release:
    """Counts of late executions by program; for a quota, counts of late operations.

    `late`: the executions or operations to charge for. `carried`: those that an amendment takes over, free of charge.
    """

    late: Mapping[str, int] = field(default_factory=dict)
    carried: Mapping[str, int] = field(default_factory=dict)


def release_of(
    contract: Contract, *, now: datetime, usage: ContractUsage | None = None, takeover: Takeover | None = None
) -> Release:
    """Return the late executions if the contract closes at `now`."""
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
    """Return the late cancellation charge of a contract that closed at `closed_at`.

    `carried`: the executions that the amendment took over, which are not charged.
    """
    term = late_term(contract.terms)
    if term is None:
        return Decimal(0)
    late = _late(contract, term, closed_at, contract_usage(contract))
    left = {digest: count - carried.get(digest, 0) for digest, count in late.items()}
    return exact_sum(
        rest_rating(contract, digest, count, unused=True, late=True).amount for digest, count in left.items() if count
    )


def _late(contract: Contract, term: LateCancellation, released: datetime, usage: ContractUsage) -> dict[str, int]:
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
    """Return the instant before which the contract can be ended without a late charge.

    Return None if some work is already late, or if no work can become late.
    """
    term = late_term(contract.terms)
    if term is None or contract.terms.get("amends", {}).get("carried"):
        return None
    unused = list(unused_counted(contract, usage).values())
    reserved = periods_reserved(contract.reservation_id)
    return free_until(unused, reserved=reserved, notice_minutes=term.notice_minutes)


def unused_counted(contract: Contract, usage: ContractUsage) -> dict[str, Unused]:
    """Return each program's unused executions to which late cancellation applies."""
    request_lines, is_host = request_lines_of(contract.terms), contract.terms["pool"]["kind"] == PoolKind.HOST
    each = seconds_each(request_lines, Fraction(contract.quote.document["device_seconds"]), is_host=is_host)
    left = {line.program_digest: line.unused for line in usage.lines}
    return {
        request_line.snapshot.digest: Unused(
            max(left[request_line.snapshot.digest] - volume_of(request_line) + request_line.counted, 0), seconds
        )
        for request_line, seconds in zip(request_lines, each, strict=True)
    }


def takeover_of(priced: Priced) -> Takeover:
    """Return the work of an offer that amends a contract."""
    lines = [(line.request_line, line.worst.terms) for line in priced.lines]
    return _takeover(priced.book, lines, priced.pool.slug, priced.window.start)


def takeover_stored(document: dict[str, Any]) -> Takeover:
    """Return the work of a stored quote that amends a contract."""
    terms = [Terms.from_json(line["rating"]["terms"]) for line in document["lines"]]
    lines = list(zip(request_lines_of(document), terms, strict=True))
    book, start = book_of_digest(document["book"]["digest"]), window_of_document(document).start
    return _takeover(book, lines, document["pool"]["slug"], start)


def _takeover(
    book: PriceBookDocument, lines: list[tuple[QuoteRequestLine, Terms]], pool: str, start: datetime
) -> Takeover:
    has_term = book.price_class(lines[0][1].klass).late is not None
    held = {
        request_line.snapshot.digest: (request_line.counted, late_rating(book, request_line.snapshot, terms, 1).amount)
        for request_line, terms in lines
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
    """Rate `count` unused executions of a line, or operations for a quota.

    `unused`: rate reserved but unused work. `late`: rate the additional charge for a late release. `book`: the
    contract's price book, if already read.
    """
    line = terms_line(contract, program_digest)
    snapshot = snapshot_of_line(line)
    book = book or contract.book
    terms = Terms.from_json(line["rating"]["terms"])
    return volume_rating(book, snapshot, terms, count, unused=unused, late=late)


def _stays(contract: Contract, takeover: Takeover, late_before: datetime) -> bool:
    return takeover.pool == contract.pool.slug and takeover.start < late_before


def _taken_over(contract: Contract, digest: str, count: int, takeover: Takeover) -> int:
    if digest not in takeover.lines or not count:
        return 0
    held, amount = takeover.lines[digest]
    return min(count, held) if amount >= rest_rating(contract, digest, 1, unused=True, late=True).amount else 0


def _some(counts: Mapping[str, int]) -> dict[str, int]:
    return {digest: count for digest, count in counts.items() if count}
