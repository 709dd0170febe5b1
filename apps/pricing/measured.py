"""Derive the price of a host's operations from a measurement, and compare this price with the price book. Pure.

A host's cycles are not proven, so its price is based on operations per second.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from apps.figures import percent_format
from apps.pricing.derivation import DIGITS, HOUR, TERA, Computed, Derivation, Given, Price, rounded_up, shown

FORMAT = "takt-host-measurement/1"
MILLION = 10**6


@dataclass(frozen=True)
class Measured:
    """The measurement of a processor class, the steps to the resulting price, and the price in the book."""

    name: str
    reference: str
    given: tuple[Given, ...]
    steps: tuple[Computed, ...]
    price: Price
    stated: Price
    said: str


def measured_price(found: Derivation, record: dict[str, Any]) -> Measured:
    """Return the price that a measurement implies for one class of a derivation.

    Raises ValueError for an unknown format, and StopIteration for an unknown class.
    """
    if record["format"] != FORMAT:
        raise ValueError(f"this is {record['format']!r}, not {FORMAT!r}")
    one = next(known for known in found.classes if known.name == record["class"])
    stated = one.price(record["precision"])
    used = one.target / one.expected_use
    operations, micro = Fraction(record["operations"]), Fraction(record["processor_microseconds"])
    rate = operations * MILLION / micro
    per_hour = rate * HOUR / TERA
    price = Price(stated.precision, None, per_hour, rounded_up(used / per_hour, DIGITS))
    steps = (
        Computed("Operations per second", f"{shown(operations)} × 1,000,000 / {shown(micro)}", rate, "a second"),
        Computed("Tera-operations per used hour", f"{shown(rate)} × 3,600 / 10¹²", per_hour, "a used hour"),
        Computed(
            "Price of a tera-operation",
            f"{shown(used)} / {shown(per_hour)}, rounded up to four significant digits",
            price.price,
            "a tera-operation",
        ),
    )
    return Measured(one.name, record["reference"], _given(record), steps, price, stated, _said(price, stated, found))


def _given(record: dict[str, Any]) -> tuple[Given, ...]:
    source = f"measured on {record['measured_on']} by {record['command']} on {record['hardware']}"
    quiet = (
        f"other processes used at most {record['others_percent']} % of the {record['processors']} processors during the quietest "
        f"of {record['rounds']} rounds"
    )
    return (
        Given("Operations per image", Fraction(record["operations"]), "", "counted: the compiled program"),
        Given(
            "Processor time per image",
            Fraction(record["processor_microseconds"]),
            "µs of a processor",
            f"{source}; the median of {record['images']}; {quiet}",
        ),
        Given(
            "Wall-clock time per image",
            Fraction(record["clock_microseconds"]),
            "µs",
            "the same images, including waits",
        ),
    )


def _said(price: Price, stated: Price, found: Derivation) -> str:
    if price.price == stated.price:
        return "The price book already uses this price."
    share = percent_format(price.price / stated.price)
    return (
        f"Price book {found.document['version']} was derived before this measurement, from an assumed number of "
        f"operations per second. A published book never changes. The measured price is {share} of the price in the book. "
        "The next book may use the measured price."
    )
