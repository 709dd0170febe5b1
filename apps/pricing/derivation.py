"""Derive a price book from the required revenue of a device-hour, step by step. Pure.

Every hour must pay for depreciation, energy and operation, plus a margin. Only a share of the hours is sold, so each
sold hour must bring more. A reference program gives the number of operations in a sold hour. Prices are rounded up to
four significant digits.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

HOUR = 3600
TERA = 10**12
DIGITS = 4  # of a price, significant
FORMAT = "takt-price-targets/1"


@dataclass(frozen=True)
class Given:
    """An input value with its source."""

    title: str
    value: Fraction
    unit: str
    source: str


@dataclass(frozen=True)
class Computed:
    """A computed step: its result, and its formula with the numbers inserted."""

    title: str
    formula: str
    value: Fraction
    unit: str


@dataclass(frozen=True)
class Price:
    """The price of a tera-operation at one precision. `per_cycle` is None if cycles are not proven."""

    precision: str
    per_cycle: int | None
    per_hour: Fraction
    price: Fraction


@dataclass(frozen=True)
class ClassDerivation:
    """The inputs, steps and prices of one processor class.

    `target` is the required revenue per hour, averaged over sold and unsold hours.
    """

    name: str
    reference: str
    given: tuple[Given, ...]
    steps: tuple[Computed, ...]
    target: Fraction
    expected_use: Fraction
    clock_hz: int | None
    prices: tuple[Price, ...]

    def price(self, precision: str) -> Price:
        """Return the price at a precision. Raises StopIteration if there is none."""
        return next(one for one in self.prices if one.precision == precision)


@dataclass(frozen=True)
class ProgramHour:
    """The revenue of a device-hour with a real program at the expected utilisation, and the target revenue."""

    name: str
    processor_class: str
    precision: str
    operations: int
    cycles: int
    fetches: Fraction
    target: Fraction

    @property
    def ratio(self) -> Fraction:
        return self.fetches / self.target


@dataclass(frozen=True)
class Derivation:
    """The derivation of a price book, and the resulting book."""

    classes: tuple[ClassDerivation, ...]
    contract: tuple[tuple[Given, ...], tuple[Computed, ...]]
    programs: tuple[ProgramHour, ...]
    rented: dict[str, Any]
    late: tuple[tuple[Given, ...], Computed]
    document: dict[str, Any]

    @property
    def rented_said(self) -> str:
        return (
            "For comparison only: another provider's hourly price for different hardware, in another currency. Each hour "
            "is paid for whether it is used or not. "
            f"Source: {self.rented['source']}."
        )


def derive(targets: dict[str, Any], base: dict[str, Any]) -> Derivation:
    """Derive the next price book from the `targets` and the `base` book."""
    if targets["format"] != FORMAT:
        raise ValueError(f"these are {targets['format']!r}, not {FORMAT!r}")
    classes = tuple(_class(name, targets) for name in targets["classes"])
    contract, minimum = _contract(targets["contract"], int(base["currency"]["exponent"]))
    late = _late(targets["late_cancellation"], classes, base)
    document = copy.deepcopy(base) | {
        "version": targets["version"],
        "prices": {one.name: {price.precision: text(price.price) for price in one.prices} for one in classes},
        "minimum_operations_per_cycle": {one.name: _minimums(one) for one in classes},
        "contract_minimum": text(minimum),
        "classes": _classes_with(late, targets["late_cancellation"]["notice_minutes"], base),
    }
    hours = tuple(_hour(row, classes) for row in targets["programs"])
    return Derivation(classes, contract, hours, targets["rented"], late, document | targets["rules"])


def hour_fetches(one: ClassDerivation, precision: str, *, operations: int, cycles: int) -> Fraction:
    """Return the revenue of a device-hour at the expected utilisation, from a program with these counts.

    The class must have a clock.
    """
    price = one.price(precision)
    billed = Fraction(max(operations, cycles * (price.per_cycle or 0)), cycles)
    return billed * (one.clock_hz or 0) * HOUR * price.price / TERA * one.expected_use


def rounded_up(value: Fraction, digits: int) -> Fraction:
    """Round a positive value up to `digits` significant digits."""
    scale = Fraction(1)
    while value * scale < 10 ** (digits - 1):
        scale *= 10
    while value * scale >= 10**digits:
        scale /= 10
    return Fraction(-(-value * scale // 1)) / scale


def text(value: Fraction) -> str:
    """Return a fraction as plain decimal text. The decimal form of the fraction must be finite."""
    places = 0
    while (value * 10**places).denominator != 1:
        places += 1
    digits = f"{int(value * 10**places):0{places + 1}d}"
    return f"{digits[: len(digits) - places]}.{digits[len(digits) - places :]}" if places else digits


def _class(name: str, targets: dict[str, Any]) -> ClassDerivation:
    row = targets["classes"][name]
    given = tuple(_given(row, targets))
    value = {one.title: one.value for one in given}
    hours = value["Written off over"] * targets["hours_per_year"]
    capital = value["Purchase"] / hours
    energy = value["Power"] / 1000 * value["Cooling"] * value["Energy"]
    cost = capital + energy + value["Operation"]
    target = cost * (1 + value["Margin"])
    used = target / value["Expected use"]
    steps = (
        Computed("Purchase per hour", f"{shown(value['Purchase'])} / {shown(hours)} h", capital, "an hour"),
        Computed(
            "Energy per hour",
            f"{shown(value['Power'])} W / 1,000 × {shown(value['Cooling'])} × {shown(value['Energy'])}",
            energy,
            "an hour",
        ),
        Computed(
            "Cost of a device-hour",
            f"{shown(capital)} + {shown(energy)} + {shown(value['Operation'])}",
            cost,
            "an hour",
        ),
        Computed(
            "Target revenue per device-hour", f"{shown(cost)} × (1 + {shown(value['Margin'])})", target, "an hour"
        ),
        Computed(
            "Required revenue per used hour", f"{shown(target)} / {shown(value['Expected use'])}", used, "a used hour"
        ),
    )
    prices = tuple(_prices(row, used))
    return ClassDerivation(
        name, row["reference"], given, steps, target, value["Expected use"], row.get("clock_hz"), prices
    )


def _given(row: dict[str, Any], targets: dict[str, Any]) -> Iterator[Given]:
    for title, place, unit in (
        ("Purchase", row["purchase"], ""),
        ("Written off over", row["years"], "years"),
        ("Power", row["watts"], "W"),
        ("Cooling", targets["cooling"], "x the power"),
        ("Energy", targets["energy_per_kwh"], "a kWh"),
        ("Operation", row["operation"], "an hour"),
        ("Margin", row["margin"], "of the cost"),
        ("Expected use", row["expected_use"], "of the hours"),
    ):
        yield Given(title, Fraction(place["value"]), unit, place["source"])


def _prices(row: dict[str, Any], used: Fraction) -> Iterator[Price]:
    for precision, one in row.get("precisions", {}).items():
        per_cycle = one["operations"] // one["cycles"]
        per_hour = Fraction(per_cycle * row["clock_hz"] * HOUR, TERA)
        yield Price(precision, per_cycle, per_hour, rounded_up(used / per_hour, DIGITS))
    for precision, rate in row.get("operations_per_second", {}).items():
        per_hour = Fraction(rate * HOUR, TERA)
        yield Price(precision, None, per_hour, rounded_up(used / per_hour, DIGITS))


def _minimums(one: ClassDerivation) -> int | dict[str, int]:
    # With this minimum, every program pays at least as much for a device as the reference program.
    known = {price.precision: price.per_cycle for price in one.prices if price.per_cycle is not None}
    return known or 0


def _contract(row: dict[str, Any], exponent: int) -> tuple[tuple[tuple[Given, ...], tuple[Computed, ...]], Fraction]:
    titles = (
        ("platform_seconds", "Handling", "s"),
        ("platform_per_hour", "Platform", "an hour"),
        ("records", "Records", "a contract"),
        ("margin", "Margin", "of the cost"),
    )
    given = tuple(Given(title, Fraction(row[key]["value"]), unit, row[key]["source"]) for key, title, unit in titles)
    seconds, hour, records, margin = (one.value for one in given)
    cost = seconds * hour / HOUR + records
    asked = cost * (1 + margin)
    unit = Fraction(1, 10**exponent)
    minimum = -(-asked // unit) * unit
    steps = (
        Computed(
            "Cost of a contract", f"{shown(seconds)} s × {shown(hour)} / 3,600 + {shown(records)}", cost, "a contract"
        ),
        Computed("With the margin", f"{shown(cost)} × (1 + {shown(margin)})", asked, "a contract"),
        Computed("Contract minimum", "rounded up to the smallest unit of the currency", minimum, "a contract"),
    )
    return (given, steps), minimum


def _late(
    row: dict[str, Any], classes: tuple[ClassDerivation, ...], base: dict[str, Any]
) -> tuple[tuple[Given, ...], Computed]:
    given = tuple(
        Given(
            base["classes"][name]["title"],
            Fraction(one["value"]) / 60,
            "hour" if one["value"] == 60 else "hours",
            one["source"],
        )
        for name, one in row["notice_minutes"].items()
    )
    least = min(classes, key=lambda one: one.expected_use)
    used = next(step.value for step in least.steps if step.unit == "a used hour")
    formula = f"{shown(least.target)} an hour / {shown(used)} a used hour"
    return given, Computed("Share of the price", formula, least.target / used, "of the price")


def _classes_with(
    late: tuple[tuple[Given, ...], Computed], notices: dict[str, Any], base: dict[str, Any]
) -> dict[str, Any]:
    found: dict[str, Any] = copy.deepcopy(base["classes"])
    for name, one in notices.items():
        found[name]["late_cancellation"] = {"notice_minutes": one["value"], "share": text(late[1].value)}
    return found


def _hour(row: dict[str, Any], classes: tuple[ClassDerivation, ...]) -> ProgramHour:
    one = next(known for known in classes if known.name == row["class"])
    fetches = hour_fetches(one, row["precision"], operations=row["operations"], cycles=row["cycles"])
    return ProgramHour(
        row["name"], row["class"], row["precision"], row["operations"], row["cycles"], fetches, one.target
    )


def shown(value: Fraction) -> str:
    """Return a number as rounded text for a formula."""
    if value.denominator == 1 or abs(value) >= 1000:
        return f"{round(value):,}"
    places = 0
    while abs(value) * 10**places < 1000:
        places += 1
    return text(Fraction(round(value * 10**places), 10**places))
