"""Read the cells of a price list, by rules that all formats share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum

from apps.currencies import PLACES
from apps.planner.hosting.faults import shown
from apps.planner.hosting.names import name_key

TEXT_MAX, DIGITS, PLACES_MAX = 160, 9, 20
HOURS = {"hour", "hours", "h", "hr", "hrs"}
_NUMBER = re.compile(rf"[0-9]{{1,{DIGITS}}}(\.[0-9]{{1,{PLACES_MAX}}})?")


class Format(StrEnum):
    """The format of a price list."""

    OWN = "own"
    SKYPILOT = "skypilot"
    FOCUS = "focus"


@dataclass(frozen=True)
class Price:
    """The hourly prices of a machine in one region and zone.

    `on_demand` or `spot` is None if not offered. `line` is the line in the file. `gpu` is the accelerator's full name.
    """

    line: int
    machine: str
    region: str
    zone: str
    accelerator: str
    accelerators: Decimal
    gpu: str
    on_demand: Decimal | None
    spot: Decimal | None

    @property
    def key(self) -> tuple[str, str, str, bool]:
        return name_key(self.machine), self.region.casefold(), self.zone.casefold(), self.on_demand is None


class Refused(Exception):
    """Raised if a row or header is not accepted."""

    def __init__(self, message: str, column: str = "") -> None:
        super().__init__(message)
        self.column = column


class Cells:
    """One row of a price list. Column names are case-insensitive."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values

    def text(self, column: str, *, needed: bool = False) -> str:
        """Return a cell's text without surrounding spaces.

        Raises Refused if the text is too long or unprintable, or if a needed cell is empty.
        """
        value = self.values.get(column.casefold(), "").strip()
        if not value and needed:
            raise Refused("it is empty; every row needs a value.", column)
        if len(value) > TEXT_MAX or not value.isprintable():
            raise Refused(f"give at most {TEXT_MAX} printable characters, not {shown(value)}.", column)
        return value

    def long(self, column: str) -> str:
        """Return a cell's text, without a limit on the length."""
        return self.values.get(column.casefold(), "").strip()

    def price(self, column: str) -> Decimal | None:
        """Return a price; None for an empty cell. Raises Refused unless the price is a number above 0."""
        number = self.number(column)
        if number is not None and not number:
            raise Refused("a price must be above 0; leave the cell empty if the machine is not offered.", column)
        return number

    def number(self, column: str) -> Decimal | None:
        """Return an exact decimal; None for an empty cell. Raises Refused unless the cell holds a number of at least 0."""
        value = self.text(column)
        if not value:
            return None
        if not _NUMBER.fullmatch(value):
            raise Refused(
                f"give an amount such as 1.29, with at most {DIGITS} digits before and {PLACES_MAX} after the point, not "
                f"{shown(value)}.",
                column,
            )
        return Decimal(value)


Reader = Callable[[Cells, int], tuple[str, Price] | None]
"""Returns the currency and the price of a row; None for a row to skip. Raises Refused."""


@dataclass(frozen=True)
class Layout:
    """The layout of a format: its required columns and the function that reads a row.

    `newest(cells)` returns a sort key. If several rows name the same machine, the row with the highest key is used. If
    `newest` is None, no machine may be repeated.
    """

    needed: tuple[str, ...]
    read: Reader
    newest: Callable[[Cells], str] | None = None


def currency_of(text: str, column: str) -> str:
    """Return the currency code. Raises Refused if the text is not an ISO 4217 code."""
    if text not in PLACES:
        raise Refused(f"{shown(text)} is not a currency; give an ISO 4217 code such as USD.", column)
    return text


def hour_of(text: str, column: str) -> None:
    """Raise Refused unless the unit is an hour."""
    if text.casefold() not in HOURS:
        raise Refused(f"the price is per {shown(text)}; give the price per hour and write hour.", column)
