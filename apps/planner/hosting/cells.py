"""One row of a price list: its cells, the price that is read from it, and the rules that all formats share."""

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
    """How a price list is written."""

    OWN = "own"
    SKYPILOT = "skypilot"
    FOCUS = "focus"


@dataclass(frozen=True)
class Price:
    """A machine as it is offered in one place. Prices are of one hour; None where it is not sold so.

    `line`: that of the file. `accelerators`: how many `accelerator` it has; 0 where it has none. `gpu`: the full name.
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
        """What there is only one of in a list: a machine in a place, on demand or as spot alone."""
        return name_key(self.machine), self.region.casefold(), self.zone.casefold(), self.on_demand is None


class Refused(Exception):
    """A row, or a header, that cannot be taken."""

    def __init__(self, message: str, column: str = "") -> None:
        super().__init__(message)
        self.column = column


class Cells:
    """One row by the names of its columns, which are read without regard to case."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values

    def text(self, column: str, *, needed: bool = False) -> str:
        """A cell without the space around it. Raises Refused for what is too long, and for an empty one that is needed."""
        value = self.values.get(column.casefold(), "").strip()
        if not value and needed:
            raise Refused("it is empty; every row needs it.", column)
        if len(value) > TEXT_MAX or not value.isprintable():
            raise Refused(f"give at most {TEXT_MAX} printable characters, not {shown(value)}.", column)
        return value

    def long(self, column: str) -> str:
        """A cell that holds a description, as it is."""
        return self.values.get(column.casefold(), "").strip()

    def price(self, column: str) -> Decimal | None:
        """An amount above zero; None for an empty cell."""
        number = self.number(column)
        if number is not None and not number:
            raise Refused("a price of 0 is none; leave the cell empty where it is not sold.", column)
        return number

    def number(self, column: str) -> Decimal | None:
        """An exact decimal of at least 0; None for an empty cell."""
        value = self.text(column)
        if not value:
            return None
        if not _NUMBER.fullmatch(value):
            raise Refused(
                f"give an amount as plain digits such as 1.29, of at most {DIGITS} digits before and {PLACES_MAX} after the "
                f"point, not {shown(value)}.",
                column,
            )
        return Decimal(value)


Reader = Callable[[Cells, int], tuple[str, Price] | None]
"""The currency and the price of a row; None for a row about something else. Raises Refused."""


@dataclass(frozen=True)
class Layout:
    """A format: the columns that it must have, how a row is read, and whether rows of one machine may repeat.

    `newest(cells)` orders repeated rows; the last stays.
    """

    needed: tuple[str, ...]
    read: Reader
    newest: Callable[[Cells], str] | None = None


def currency_of(text: str, column: str) -> str:
    """An ISO 4217 code. Raises Refused for another."""
    if text not in PLACES:
        raise Refused(f"{shown(text)} is no currency; give a code of ISO 4217 in capitals, such as USD.", column)
    return text


def hour_of(text: str, column: str) -> None:
    """Raises Refused for a price that is not of an hour."""
    if text.casefold() not in HOURS:
        raise Refused(f"the price is of one {shown(text)}; give the price of an hour and write hour.", column)
