"""Read a price book document, and report every fault with its path."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import date
from decimal import Decimal
from typing import Any, TypeVar

from apps.pricing.rating.book import (
    FORMAT,
    Currency,
    LateCancellation,
    PriceBookDocument,
    PriceClass,
)
from apps.pricing.rating.contradictions import contradictions
from apps.pricing.rating.decimals import FACTOR_PLACES, PRICE_PLACES, decimal_of
from apps.pricing.rating.errors import BookError, RatingError
from apps.pricing.rating.tariff import Holiday, Matrix, Period, Tariff, zone_of

T = TypeVar("T")

_NAME = re.compile(r"[a-z0-9_-]{1,40}")
_KEYS = {
    "format",
    "version",
    "currency",
    "notice_days",
    "quote_validity_minutes",
    "prices",
    "minimum_operations_per_cycle",
    "floor",
    "classes",
    "commitments",
    "tariff",
}
_CLASS_KEYS = {
    "title",
    "promise",
    "surcharge",
    "discount",
    "unused",
    "off_peak_only",
    "start_within_minutes",
    "finish_within_minutes",
    "offered",
}
_MAY = {"minimum_charge", "free_tera_operations", "commitment_days", "missed_guarantee", "contract_minimum"}
_MOST_MONEY = Decimal(10) ** 9
_MOST_NOTICE = 60 * 24 * 62  # minutes: quotes reach 62 days ahead
_MOST_FACTOR = Decimal(1000)


def book_from_text(text: str | bytes) -> PriceBookDocument:
    """Parse a price book from JSON text. Raises BookError if the text is not a valid price book."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BookError([f"it is not JSON ({error})"]) from error
    return book_from_json(document)


def book_from_json(document: Any, *, currencies: Mapping[str, int] | None = None) -> PriceBookDocument:
    """Check and read a price book document. Raises BookError with every fault.

    `currencies` maps the allowed currency codes to their decimal places. If `currencies` is None, any code is accepted.
    """
    reader = _Reader()
    reader.keys(document, _KEYS, "the document", _MAY)
    reader.stop_if_broken()
    if document["format"] != FORMAT:
        reader.problems.append(f"format is {document['format']!r}, this program reads {FORMAT!r}")
    book = PriceBookDocument(
        version=reader.integer(document["version"], "version", 1, 10**9),
        currency=_currency(reader, document["currency"], currencies),
        notice_days=reader.integer(document["notice_days"], "notice_days", 0, 3650),
        quote_validity_minutes=reader.integer(
            document["quote_validity_minutes"], "quote_validity_minutes", 1, 60 * 24 * 366
        ),
        prices=_prices(reader, document["prices"]),
        minimum_operations_per_cycle=reader.table(
            document["minimum_operations_per_cycle"],
            "minimum_operations_per_cycle",
            lambda value, where: _minimum(reader, value, where),
        ),
        floor=reader.factor(document["floor"], "floor", at_most=Decimal(1)),
        classes=reader.table(document["classes"], "classes", lambda value, where: _price_class(reader, value, where)),
        commitments=reader.table(
            document["commitments"], "commitments", lambda value, where: reader.price_factor(value, where, Decimal(1))
        ),
        tariff=_tariff(reader, document["tariff"]),
        minimum_charge=_money(reader, document, "minimum_charge"),
        free_tera_operations=_money(reader, document, "free_tera_operations"),
        commitment_days=_commitment_days(reader, document),
        missed_guarantee=reader.factor(document.get("missed_guarantee", "1"), "missed_guarantee", Decimal(1)),
        contract_minimum=_money(reader, document, "contract_minimum"),
    )
    reader.stop_if_broken()
    reader.problems += contradictions(book)
    reader.stop_if_broken()
    return book


class _Reader:
    # A faulty value is replaced by a valid value, so that reading continues and finds further faults.
    def __init__(self) -> None:
        self.problems: list[str] = []

    def stop_if_broken(self) -> None:
        if self.problems:
            raise BookError(self.problems)

    def keys(self, value: Any, wanted: set[str], where: str, may: AbstractSet[str] = frozenset()) -> bool:
        if not isinstance(value, dict):
            self.problems.append(f"{where} is not an object")
            return False
        missing, unknown = sorted(wanted - value.keys()), sorted(map(str, value.keys() - wanted - may))
        if missing:
            self.problems.append(f"{where} lacks {', '.join(missing)}")
        if unknown:
            self.problems.append(f"{where} has unknown entries {', '.join(unknown)}")
        return not missing and not unknown

    def integer(self, value: Any, where: str, at_least: int, at_most: int) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not at_least <= value <= at_most:
            self.problems.append(f"{where} is {value!r}, not a whole number from {at_least} to {at_most}")
            return at_least
        return value

    def text(self, value: Any, where: str, longest: int = 400) -> str:
        if not isinstance(value, str) or not 0 < len(value) <= longest or not value.isprintable():
            self.problems.append(f"{where} is not a printable text of 1 to {longest} characters")
            return "?"
        return value

    def boolean(self, value: Any, where: str) -> bool:
        if not isinstance(value, bool):
            self.problems.append(f"{where} is {value!r}, neither true nor false")
        return value is True

    def decimal(self, value: Any, where: str, places: int) -> Decimal | None:
        try:
            return decimal_of(value, places=places)
        except ValueError as error:
            self.problems.append(f"{where}: {error}")
            return None

    def factor(
        self, value: Any, where: str, at_most: Decimal = _MOST_FACTOR, at_least: Decimal = Decimal(0)
    ) -> Decimal:
        number = self.decimal(value, where, FACTOR_PLACES)
        if number is None:
            return Decimal(1)
        if not at_least <= number <= at_most:
            span = f"from {at_least} to {at_most}" if at_most != _MOST_FACTOR else f"of at least {at_least}"
            self.problems.append(f"{where} is {number}, not a factor {span}")
            return Decimal(1)
        return number

    def price_factor(self, value: Any, where: str, at_most: Decimal) -> Decimal:
        number = self.factor(value, where, at_most)
        if number == 0:
            self.problems.append(f"{where} is 0; nothing is sold for nothing, give a factor above 0")
            return Decimal(1)
        return number

    def table(self, value: Any, where: str, read: Callable[[Any, str], T]) -> dict[str, T]:
        if not isinstance(value, dict) or not value:
            self.problems.append(f"{where} is not an object with at least one entry")
            return {}
        if not all(isinstance(key, str) and _NAME.fullmatch(key) for key in value):
            self.problems.append(f"{where} has a name that is not 1 to 40 of the characters a-z, 0-9, '_', '-'")
            return {}
        return {key: read(item, f"{where}.{key}") for key, item in sorted(value.items())}


def _currency(reader: _Reader, value: Any, known: Mapping[str, int] | None) -> Currency:
    if not reader.keys(value, {"code", "exponent"}, "currency"):
        return Currency("XXX", 2)
    code = value["code"]
    if not (isinstance(code, str) and len(code) == 3 and code.isascii() and code.isalpha() and code.isupper()):
        reader.problems.append(f"currency.code is {code!r}, not three capital letters such as EUR")
        return Currency("XXX", 2)
    exponent = reader.integer(value["exponent"], "currency.exponent", 0, 4)
    if known is not None and code not in known:
        reader.problems.append(
            f"currency.code is {code}, which is no currency of ISO 4217; write one that is, such as EUR"
        )
    elif known is not None and exponent != known[code]:
        reader.problems.append(f"currency.exponent is {exponent}, but ISO 4217 gives {code} {known[code]}; write that")
    return Currency(code, exponent)


def _prices(reader: _Reader, value: Any) -> dict[str, dict[str, Decimal]]:
    def price(item: Any, where: str) -> Decimal:
        number = reader.decimal(item, where, PRICE_PLACES)
        if number is not None and number <= 0:
            reader.problems.append(f"{where} is {number}; leave out what is not for sale, nothing is priced at 0")
        if number is not None and number > _MOST_MONEY:
            reader.problems.append(f"{where} is {number}; a tera-operation costs at most {_MOST_MONEY:,}")
        return number if number is not None else Decimal(1)

    return reader.table(value, "prices", lambda item, where: reader.table(item, where, price))


def _minimum(reader: _Reader, value: Any, where: str) -> int | dict[str, int]:
    if isinstance(value, dict):
        return reader.table(value, where, lambda item, place: reader.integer(item, place, 0, 10**12))
    return reader.integer(value, where, 0, 10**12)


def _money(reader: _Reader, document: dict[str, Any], key: str) -> Decimal:
    number = reader.decimal(document.get(key, "0"), key, PRICE_PLACES)
    if number is None:
        return Decimal(0)
    if not 0 <= number <= _MOST_MONEY:
        reader.problems.append(f"{key} is {number}, not from 0 to {_MOST_MONEY:,}")
    return number


def _commitment_days(reader: _Reader, document: dict[str, Any]) -> dict[str, int]:
    if "commitment_days" not in document:
        return {}
    return reader.table(
        document["commitment_days"], "commitment_days", lambda value, where: reader.integer(value, where, 1, 3660)
    )


def _price_class(reader: _Reader, value: Any, where: str) -> PriceClass:
    one = Decimal(1)
    if not reader.keys(value, _CLASS_KEYS, where, {"time_of_use", "late_cancellation"}):
        return PriceClass(
            "?",
            "?",
            "?",
            one,
            one,
            Decimal(0),
            off_peak_only=False,
            start_within_minutes=None,
            finish_within_minutes=None,
            offered=False,
        )

    def minutes(key: str) -> int | None:
        return None if value[key] is None else reader.integer(value[key], f"{where}.{key}", 1, 60 * 24 * 366)

    return PriceClass(
        name=where.rpartition(".")[2],
        title=reader.text(value["title"], f"{where}.title", 60),
        promise=reader.text(value["promise"], f"{where}.promise"),
        surcharge=reader.factor(value["surcharge"], f"{where}.surcharge", at_least=one),
        discount=reader.price_factor(value["discount"], f"{where}.discount", one),
        unused=reader.factor(value["unused"], f"{where}.unused", one),
        off_peak_only=reader.boolean(value["off_peak_only"], f"{where}.off_peak_only"),
        start_within_minutes=minutes("start_within_minutes"),
        finish_within_minutes=minutes("finish_within_minutes"),
        offered=reader.boolean(value["offered"], f"{where}.offered"),
        time_of_use=reader.boolean(value.get("time_of_use", False), f"{where}.time_of_use"),
        late=_late(reader, value["late_cancellation"], f"{where}.late_cancellation")
        if "late_cancellation" in value
        else None,
    )


def _late(reader: _Reader, value: Any, where: str) -> LateCancellation | None:
    if not reader.keys(value, {"notice_minutes", "share"}, where):
        return None
    return LateCancellation(
        reader.integer(value["notice_minutes"], f"{where}.notice_minutes", 0, _MOST_NOTICE),
        reader.price_factor(value["share"], f"{where}.share", Decimal(1)),
    )


def _tariff(reader: _Reader, value: Any) -> Tariff:
    if not reader.keys(value, {"zone", "periods", "weekday", "weekend", "holidays"}, "tariff"):
        return Tariff("UTC", (), (), (), ())
    zone = reader.text(value["zone"], "tariff.zone", 60)
    try:
        zone_of(zone)
    except RatingError as error:
        reader.problems.append(f"tariff.zone: {error}")
    periods = _periods(reader, value["periods"])
    return Tariff(
        zone=zone,
        periods=periods,
        weekday=_matrix(reader, value["weekday"], "tariff.weekday", len(periods)),
        weekend=_matrix(reader, value["weekend"], "tariff.weekend", len(periods)),
        holidays=_holidays(reader, value["holidays"]),
    )


def _periods(reader: _Reader, value: Any) -> tuple[Period, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= 24:
        reader.problems.append("tariff.periods is not a list of 1 to 24 periods")
        return ()
    return tuple(
        Period(
            reader.text(item["name"], f"tariff.periods[{index}].name", 40),
            reader.boolean(item["off_peak"], f"tariff.periods[{index}].off_peak"),
            reader.price_factor(item.get("factor", "1"), f"tariff.periods[{index}].factor", _MOST_FACTOR),
        )
        for index, item in enumerate(value)
        if reader.keys(item, {"name", "off_peak"}, f"tariff.periods[{index}]", {"factor"})
    )


def _matrix(reader: _Reader, value: Any, where: str, periods: int) -> Matrix:
    if not _is_matrix(value):
        reader.problems.append(f"{where} is not 12 rows (months) of 24 numbers (hours)")
        return ()
    cells = [cell for row in value for cell in row]
    if not all(_is_index(cell, periods) for cell in cells):
        reader.problems.append(f"{where} has a number that is not the index of a period (0 to {periods - 1})")
    return tuple(tuple(row) for row in value)


def _is_matrix(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 12 and all(isinstance(r, list) and len(r) == 24 for r in value)


def _is_index(value: Any, count: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count


def _holidays(reader: _Reader, value: Any) -> tuple[Holiday, ...]:
    if not isinstance(value, list):
        reader.problems.append("tariff.holidays is not a list")
        return ()
    found: list[Holiday] = []
    for index, item in enumerate(value):
        where = f"tariff.holidays[{index}]"
        if not reader.keys(item, {"day", "name"}, where):
            continue
        try:
            found.append(Holiday(date.fromisoformat(str(item["day"])), reader.text(item["name"], f"{where}.name", 60)))
        except ValueError:
            reader.problems.append(f"{where}.day is {item['day']!r}, not a date such as 2026-12-25")
    return tuple(sorted(found))
