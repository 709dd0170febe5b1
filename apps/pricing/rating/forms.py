"""Prices for each form of contract, and the monthly rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from math import ceil

from apps.pricing.rating.book import NO_COMMITMENT, PriceBookDocument
from apps.pricing.rating.decimals import CONTEXT, TERA, decimal_text, digest_of, exact_sum, multiply, subtract
from apps.pricing.rating.errors import NotPriced, RatingError
from apps.pricing.rating.minimum import rate_contract_minimum
from apps.pricing.rating.pipeline import bound_period, rate
from apps.pricing.rating.terms import QUOTA, Counts, Rating, Terms


@dataclass(frozen=True)
class TariffPart:
    """A part of a lease within one tariff period: the `executions` whose first cycle is in [start, end)."""

    period: str
    start: datetime
    end: datetime
    executions: int


def rate_quota(
    *, book: PriceBookDocument, operations: int, terms: Terms, unused: bool = False, late: bool = False
) -> Rating:
    """Price a quota of billed operations for any program. `terms.form` must be "quota".

    If `unused` is set, price the unused operations. If `late` is set too, price the additional charge for their late
    release.
    """
    if terms.form != QUOTA:
        raise RatingError(f"The contract form {terms.form!r} has executions, not a quota of operations.")
    return rate(book=book, counts=Counts(operations, 0), executions=1, terms=terms, unused=unused, late=late)


def rate_schedule(*, book: PriceBookDocument, counts: Counts, terms: Terms) -> Rating:
    """Price the whole volume of a contract with a schedule. This price is the amount to hold."""
    if terms.schedule is None:
        raise RatingError(f"The contract form {terms.form!r} needs a schedule.")
    return rate(book=book, counts=counts, executions=terms.schedule.executions, terms=terms)


def both_ends(book: PriceBookDocument, rating: Rating) -> tuple[Rating, Rating]:
    """Return the price of a contract if none of its volume is used, and the price if all of its volume is used."""
    terms, counts, executions = replace(rating.terms, served=""), rating.counts, rating.executions
    least = rate(book=book, counts=counts, executions=executions, terms=terms, unused=True)
    return least, rate(book=book, counts=counts, executions=executions, terms=terms)


def rate_bought(book: PriceBookDocument, rating: Rating) -> Rating:
    """Return the price of used work on the terms on which the work was bought."""
    terms = replace(rating.terms, served="")
    return rate(book=book, counts=rating.counts, executions=rating.executions, terms=terms)


@dataclass(frozen=True)
class Reduction:
    """A reason why used work cost less than agreed, and the difference.

    `name` is `measured` (measured counts), `hours` (cheaper hours) or `served` (another class was served).
    """

    name: str
    amount: Decimal


def reductions(book: PriceBookDocument, rating: Rating) -> list[Reduction]:
    """Return the reasons why used work cost less than `rate_bought` returns.

    The amounts of the reasons sum to the difference.
    """
    if rating.unused or rating.missed:
        return []
    kept = replace(rating.terms, served="")
    periods = rating.periods if bound_period(book, kept) is not None else None
    as_run = rate(
        book=book,
        counts=rating.counts,
        executions=rating.executions,
        terms=kept,
        measured=rating.measured,
        periods=periods,
    ).amount
    first = "hours" if rating.measured is None else "measured"
    found = [
        Reduction(first, subtract(rate_bought(book, rating).amount, as_run)),
        Reduction("served", subtract(as_run, rating.amount)),
    ]
    return [one for one in found if one.amount]


def tariff_bound(book: PriceBookDocument, klass: str, start: datetime, end: datetime) -> datetime | None:
    """Return the instant in [start, end) that determines a contract's tariff.

    Return None if the class is off-peak only and there is no off-peak hour.
    """
    price_class = book.price_class(klass)
    if price_class.off_peak_only:
        off_peak = book.tariff.intervals(start, end)
        return off_peak[0][0] if off_peak else None
    return book.tariff.dearest(start, end) if price_class.time_of_use else start.astimezone(UTC)


def tariff_parts(
    book: PriceBookDocument, *, start: datetime, seconds: Fraction, executions: int
) -> tuple[TariffPart, ...]:
    """Split a lease between executions where the tariff period changes.

    Execution k starts at start + k * `seconds` of device time, and belongs to the hour of its first cycle.
    """
    if executions < 1 or seconds < 0:
        raise RatingError("A lease must have at least one execution and a duration of at least 0 seconds.")
    start = start.astimezone(UTC)
    last = start + timedelta(microseconds=int((executions - 1) * seconds * 10**6) + 1)
    found: list[TariffPart] = []
    done = 0
    for period, left, right in book.tariff.spans(start, last):
        before = (
            executions if right == last or not seconds else min(executions, ceil(_seconds(right - start) / seconds))
        )
        if before > done:
            found.append(TariffPart(period.name, left, right, before - done))
        done = before
    return tuple(found)


def rate_lease(
    *,
    book: PriceBookDocument,
    counts: Counts,
    executions: int,
    terms: Terms,
    start: datetime,
    seconds: Fraction,
    measured: Counts | None = None,
) -> Rating:
    """Price a lease whose executions follow each other every `seconds` of device time.

    If the price follows the hours, each execution is charged at the hour of its first cycle. An execution never costs
    more than the agreed price. `measured` is the lease's total counts.
    """
    by_lease = [measured] if terms.measured and measured is not None else None
    periods: dict[str, int] | None = None
    if by_lease is None and bound_period(book, terms) is not None:
        periods = {}
        for part in tariff_parts(book, start=start, seconds=seconds, executions=executions):
            periods[part.period] = periods.get(part.period, 0) + part.executions
    return rate(book=book, counts=counts, executions=executions, terms=terms, measured=by_lease, periods=periods)


def group_key(rating: Rating) -> str:
    """Return a key that is equal for all ratings that can share a line."""
    key = [
        rating.book_digest,
        rating.counts.to_json(),
        rating.terms.to_json(),
        rating.unused,
        rating.missed,
        rating.measured is None,
        rating.periods is None,
    ]
    if rating.late:
        key.append("late")
    return digest_of(key if rating.charged is None else [*key, decimal_text(rating.charged)])


def merge_ratings(book: PriceBookDocument, ratings: Sequence[Rating]) -> Rating:
    """Return one rating whose amount is the exact sum of the given ratings.

    Raises RatingError if the ratings can't be merged.
    """
    _check_mergeable(ratings)
    first = ratings[0]
    if first.charged is not None:
        return _minimum_alone(book, ratings)
    whole = rate(
        book=book,
        counts=first.counts,
        executions=sum(item.executions for item in ratings),
        terms=first.terms,
        unused=first.unused,
        missed=first.missed,
        late=first.late,
        periods=None if first.periods is None else _periods_sum(ratings),
        measured=None if first.measured is None else [one for item in ratings for one in item.measured or ()],
    )
    apart = exact_sum(item.amount for item in ratings)
    if whole.amount != apart:
        raise RatingError(
            f"The ratings sum to {apart}, but rating them together gives {whole.amount}; they cannot be invoiced."
        )
    return whole


def _check_mergeable(ratings: Sequence[Rating]) -> None:
    distinct = {id(item): item for item in ratings}.values()  # many leases have one rating, and a key is a digest
    if not ratings or len({group_key(item) for item in distinct}) != 1:
        raise RatingError("Only ratings of one program under the same terms can form one line.")


def _periods_sum(ratings: Sequence[Rating]) -> dict[str, int]:
    periods: dict[str, int] = {}
    for item in ratings:
        for name, count in (item.periods or {}).items():
            periods[name] = periods.get(name, 0) + count
    return periods


def _minimum_alone(book: PriceBookDocument, ratings: Sequence[Rating]) -> Rating:
    first = ratings[0]
    again = rate_contract_minimum(book=book, charged=first.charged or Decimal(0), terms=first.terms)
    if len(ratings) > 1 or again.amount != first.amount:
        raise RatingError(
            "The contract minimum is charged once, under the contract's price book; these ratings cannot be invoiced."
        )
    return again


@dataclass(frozen=True)
class FreeShare:
    """The free operations of the rating at `index`. `amount` is the value of the free operations."""

    index: int
    operations: int
    amount: Decimal


def free_tier(book: PriceBookDocument, ratings: Sequence[Rating], *, taken: int = 0) -> list[FreeShare]:
    """Return the month's free operations under version 1 of the rules.

    Free operations are granted to used work in order. `taken` is the number already granted.
    """
    left = int(CONTEXT.scaleb(book.free_tera_operations, TERA)) - taken
    found: list[FreeShare] = []
    for index, rating in enumerate(ratings):
        if left <= 0:
            break
        if rating.unused or rating.missed:
            continue
        operations, worth = 0, Decimal(0)
        for size, amount in priced_parts(rating):
            free = min(size, left)
            worth = exact_sum([worth, multiply(CONTEXT.divide(amount, Decimal(size)), free)])
            operations, left = operations + free, left - free
        found.append(FreeShare(index, operations, worth))
    return found


def minimum_topup(book: PriceBookDocument, net: Decimal) -> Decimal:
    """Return the amount by which a month's usage falls short of the minimum charge; 0 if there is no shortfall."""
    return max(subtract(book.minimum_charge, net), Decimal(0))


def commitment_for(book: PriceBookDocument, days: int) -> str:
    """Return the cheapest commitment with a term of at most `days` days; "none" if there is none."""
    fitting = [name for name, length in book.commitment_days.items() if length <= days]
    return min(fitting, key=lambda name: (book.commitments[name], name), default=NO_COMMITMENT)


def commitment_factor(book: PriceBookDocument, name: str) -> Decimal:
    """Return the factor of a commitment that customers may enter. Raises NotPriced for any other name."""
    if name == NO_COMMITMENT:
        raise NotPriced("'none' is not a commitment")
    return book.commitment(name)


def priced_parts(rating: Rating) -> Iterator[tuple[int, Decimal]]:
    """Yield (billed operations, amount) for each part that has its own price."""
    if rating.periods is None:
        yield rating.billed_operations, rating.amount
        return
    for name, count in sorted(rating.periods.items()):
        yield rating.billed_operations // rating.executions * count, rating.step(f"amount:{name}").result


def _seconds(span: timedelta) -> Fraction:
    return Fraction((span.days * 86_400 + span.seconds) * 10**6 + span.microseconds, 10**6)
