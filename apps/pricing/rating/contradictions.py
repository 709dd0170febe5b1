"""Check a price book as a whole for contradictions between its prices, classes and hours."""

from __future__ import annotations

from decimal import Decimal

from apps.pricing.rating.book import NO_COMMITMENT, PriceBookDocument
from apps.pricing.rating.decimals import multiply


def contradictions(book: PriceBookDocument) -> list[str]:
    """Return a sentence for each contradiction in a price book."""
    problems: list[str] = []
    _check_prices(book, problems)
    _check_classes(book, problems)
    _check_hours(book, problems)
    _check_off_peak(book, problems)
    return problems


def _check_prices(book: PriceBookDocument, problems: list[str]) -> None:
    for processor_class, by_precision in book.prices.items():
        if processor_class not in book.minimum_operations_per_cycle:
            problems.append(f"minimum_operations_per_cycle lacks {processor_class}")
            continue
        least = book.minimum_operations_per_cycle[processor_class]
        missing = sorted(set(by_precision) - set(least)) if isinstance(least, dict) else []
        problems += [f"minimum_operations_per_cycle.{processor_class} lacks {precision}" for precision in missing]
    if book.commitments.get(NO_COMMITMENT) != 1:
        problems.append('commitments must hold "none": "1"')
    unknown = [name for name in book.commitment_days if name not in book.commitments or name == NO_COMMITMENT]
    problems += [f"commitment_days.{name} is not one of the commitments" for name in unknown]


def _check_classes(book: PriceBookDocument, problems: list[str]) -> None:
    least = min(book.commitments.values(), default=Decimal(1))
    hours = min((period.factor for period in book.tariff.periods), default=Decimal(1))
    for item in book.classes.values():
        discount = min(item.discount, hours) if item.time_of_use else item.discount
        cheapest = max(multiply(multiply(item.surcharge, discount), least), book.floor)
        if item.unused > cheapest:
            problems.append(
                f"classes.{item.name}.unused is {item.unused}, more than the {cheapest} that using it may cost; what is not "
                "used must not cost more than what is held for its use"
            )
        if item.late is not None and item.late.share > book.missed_guarantee:
            problems.append(
                f"classes.{item.name}.late_cancellation.share is {item.late.share}, more than the {book.missed_guarantee} of "
                "missed_guarantee; work that failed on our side must not cost more as unused than is credited for it"
            )
    if not any(item.offered for item in book.classes.values()):
        problems.append("no class is offered")


def _check_hours(book: PriceBookDocument, problems: list[str]) -> None:
    names = [period.name for period in book.tariff.periods]
    if len(set(names)) != len(names):
        problems.append("tariff.periods has two periods of one name")
    if any(period.factor != 1 for period in book.tariff.periods) and not any(
        item.time_of_use for item in book.classes.values()
    ):
        problems.append("tariff.periods has a factor, but no class has time_of_use, so nothing would follow it")


def _check_off_peak(book: PriceBookDocument, problems: list[str]) -> None:
    if any(item.off_peak_only for item in book.classes.values()):
        used = {index for matrix in (book.tariff.weekday, book.tariff.weekend) for row in matrix for index in row}
        if not any(book.tariff.periods[index].off_peak for index in used):
            problems.append("a class is off-peak only, but the tariff has no off-peak hour")
