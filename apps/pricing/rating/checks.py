"""Checks on the inputs and the result of the rating function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from apps.pricing.rating.book import NO_COMMITMENT, PriceBookDocument, PriceClass
from apps.pricing.rating.decimals import AMOUNT_PLACES, FACTOR_PLACES
from apps.pricing.rating.errors import NotPriced, RatingError
from apps.pricing.rating.terms import FORMS, INTERVAL, QUOTA, SPREAD, Counts, Schedule, Terms

MOST_EXECUTIONS = 10**18
MOST_COUNT = 10**21
MOST_QUOTA = 10**28
MOST_AMOUNT = Decimal(10) ** 30


def check_inputs(
    book: PriceBookDocument,
    counts: Counts,
    executions: int,
    terms: Terms,
    *,
    unused: bool,
    missed: bool,
    measured: Sequence[Counts] | None,
    periods: Mapping[str, int] | None,
) -> None:
    """Check the inputs of `rate`. Raises RatingError or NotPriced, with a message that says what to do."""
    if not 1 <= executions <= MOST_EXECUTIONS:
        raise RatingError(f"{executions:,} executions cannot be priced; choose 1 to {MOST_EXECUTIONS:,}.")
    _check_counts(counts, MOST_QUOTA if terms.form == QUOTA else MOST_COUNT)
    _check_discounts(terms)
    _check_commitment(terms)
    if (unused or missed) and (unused == missed or terms.served or measured is not None or periods is not None):
        raise RatingError(
            "Executions must be used, unused or missed. Only used executions can have a served class or measured counts."
        )
    _check_form(book, executions, terms)
    _check_hours(book, terms)
    if periods is not None:
        _check_periods(book, executions, terms, periods)
    if measured is not None:
        _check_measured(book, counts, executions, terms, measured, periods)


def check_off_peak(book: PriceBookDocument, terms: Terms) -> None:
    """Raise NotPriced unless the tariff instant is in an off-peak hour."""
    if terms.instant is None:
        raise NotPriced(f"class {terms.klass!r} needs the instant at which its window starts")
    if not book.tariff.is_off_peak(terms.instant):
        local = terms.instant.astimezone(book.tariff.tzinfo)
        raise NotPriced(
            f"{local:%Y-%m-%d %H:%M} in {book.tariff.zone} is not an off-peak hour; start the window in an off-peak "
            "hour or take another class"
        )


def check_late(book: PriceBookDocument, price_class: PriceClass, *, late: bool, unused: bool) -> None:
    """Raise RatingError if used work is released late. Raise NotPriced if the class has no price for a late release."""
    if late and not unused:
        raise RatingError("Only unused executions can be released late.")
    if late and price_class.late is None:
        raise NotPriced(f"price book {book.version} has no price for late cancellation in class {price_class.name!r}")


def check_amount(amount: Decimal, *, may_be_nothing: bool) -> None:
    """Raise RatingError if the ledger can't hold the amount exactly. Raise NotPriced if the work would cost nothing."""
    if -int(amount.as_tuple().exponent) > AMOUNT_PLACES:
        raise RatingError(f"The amount {amount} has more than {AMOUNT_PLACES} decimal places.")
    if amount > MOST_AMOUNT:
        raise RatingError(f"The amount {amount:.0f} is above {MOST_AMOUNT:.0f}; split the work.")
    if amount <= 0 and not may_be_nothing:
        raise NotPriced("the price comes to nothing, and nothing that holds a processor is free")


def _check_counts(counts: Counts, most: int) -> None:
    if not (0 <= counts.operations <= most and 0 <= counts.cycles <= most):
        raise RatingError(f"Counts of {counts.operations:,} operations and {counts.cycles:,} cycles are out of range.")


def _check_discounts(terms: Terms) -> None:
    for name, factor in terms.discounts.items():
        if not 0 < factor <= 1 or -int(factor.as_tuple().exponent) > FACTOR_PLACES:
            raise RatingError(
                f"The discount {name} must be a factor above 0 and at most 1, with at most 4 decimal places; it is {factor}."
            )


def _check_commitment(terms: Terms) -> None:
    factor = terms.commitment_factor
    if factor is None:
        return
    if terms.commitment == NO_COMMITMENT:
        raise RatingError("A factor was agreed, but no commitment is named.")
    if not 0 < factor <= 1 or -int(factor.as_tuple().exponent) > FACTOR_PLACES:
        raise RatingError(
            f"The agreed factor must be above 0 and at most 1, with at most 4 decimal places; it is {factor}."
        )


def _check_form(book: PriceBookDocument, executions: int, terms: Terms) -> None:
    if terms.form not in FORMS:
        raise NotPriced(f"there is no form of contract {terms.form!r} (there are {', '.join(FORMS)})")
    if (terms.schedule is not None) != (terms.form in (SPREAD, INTERVAL)):
        raise RatingError(f"The contract form {terms.form!r} must have {'no ' if terms.schedule else 'a '}schedule.")
    if terms.schedule is not None:
        _check_schedule(terms.schedule, executions)
    if terms.form == INTERVAL and not book.price_class(terms.klass).unused:
        raise NotPriced(
            f"class {terms.klass!r} charges nothing for what is reserved and not used, so it has no price for a "
            "guaranteed interval"
        )
    if terms.measured and terms.form == QUOTA:
        raise NotPriced("a quota is drawn by the worst case; charging what was measured needs a contract for a program")


def _check_schedule(schedule: Schedule, executions: int) -> None:
    if schedule.each < 1 or schedule.every <= 0 or schedule.intervals < 1:
        raise RatingError(
            "A schedule needs at least one interval; each must be longer than 0 seconds and have at least one execution."
        )
    if executions > schedule.executions:
        raise RatingError(f"{executions:,} executions are more than the {schedule.executions:,} contracted.")


def _check_hours(book: PriceBookDocument, terms: Terms) -> None:
    classes = [book.price_class(name) for name in (terms.klass, terms.served) if name]
    if terms.instant is not None and terms.instant.tzinfo is None:
        raise RatingError("A time without a time zone cannot be priced; add an offset such as +00:00.")
    if any(item.time_of_use for item in classes) and terms.instant is None:
        raise NotPriced(f"class {terms.klass!r} follows the hours and needs the instant that binds its tariff")


def _check_periods(book: PriceBookDocument, executions: int, terms: Terms, periods: Mapping[str, int]) -> None:
    names = [name for name in (terms.klass, terms.served) if name]
    if not any(book.price_class(name).time_of_use for name in names):
        raise RatingError(
            f"The price of class {terms.klass} does not follow the hours, so it cannot be split by period."
        )
    if any(count < 1 for count in periods.values()) or sum(periods.values()) != executions:
        raise RatingError(f"The executions by period add up to {sum(periods.values()):,}, not {executions:,}.")
    for name in periods:
        book.tariff.period(name)


def _check_measured(
    book: PriceBookDocument,
    counts: Counts,
    executions: int,
    terms: Terms,
    measured: Sequence[Counts],
    periods: Mapping[str, int] | None,
) -> None:
    if not terms.measured:
        raise RatingError("The terms charge for the worst case, so measured counts are not accepted.")
    if periods is not None:
        raise RatingError(
            "Measured counts are priced for the hour in which the window starts, so they cannot be split by period."
        )
    if not book.minimum(terms.processor_class, terms.precision):
        raise NotPriced(
            f"the cycles of {terms.processor_class!r} are not proven, so measured counts have no price there"
        )
    if not 1 <= len(measured) <= executions or any(item.cycles < 1 or item.operations < 0 for item in measured):
        raise RatingError("Each lease must have at least one execution and a measured count of at least one cycle.")
    operations, cycles = sum(item.operations for item in measured), sum(item.cycles for item in measured)
    if operations > counts.operations * executions or cycles > counts.cycles * executions:
        raise RatingError(
            f"{operations:,} operations and {cycles:,} cycles were measured, more than the worst case of {executions:,} "
            "executions; the bound of the program is wrong and nothing is charged by it."
        )
