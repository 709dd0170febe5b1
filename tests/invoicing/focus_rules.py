"""Reads the rules that stand in focus_rules.txt and holds rows of an export to them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from apps.pricing.rating.decimals import multiply

Row = dict[str, str]
TEXT = Path(__file__).parent / "focus_rules.txt"
# "<whole number> <Units>", and a currency where what is measured is money; a hyphen would join two units.
UNIT = re.compile(r"([1-9][0-9]* )?[A-Z][A-Za-z]*s|[A-Z]{3}")
PRODUCT = re.compile(r"(\w+) \* (\w+) = (\w+)")
CLAUSE = re.compile(r"(\w+) (is null|is set|is a unit|= |!= |>= |equals |differs from )(.*)")


@dataclass(frozen=True)
class Rule:
    """One requirement of the specification."""

    name: str
    must: str
    when: str

    def applies(self, row: Row) -> bool:
        """Whether the row meets the rule's condition."""
        return self.when == "always" or all(holds(clause, row) for clause in self.when.split(" and "))

    def broken_by(self, row: Row) -> bool:
        """Whether the row is one that the rule forbids."""
        return self.applies(row) and not holds(self.must, row)


def rules() -> list[Rule]:
    """Every rule of the file, in its order."""
    lines = [line for line in TEXT.read_text().splitlines() if line and not line.startswith("#")]
    return [Rule(*(cell.strip() for cell in line.split(" | "))) for line in lines]


def holds(clause: str, row: Row) -> bool:
    """One clause over one row; an empty cell is null. Raises KeyError for a column that is not there."""
    if found := PRODUCT.fullmatch(clause):
        left, right, result = (Decimal(row[name]) for name in found.groups())
        return multiply(left, right) == result
    found = CLAUSE.fullmatch(clause)
    assert found, f"no such clause: {clause}"
    value, verb, other = row[found[1]], found[2].strip(), found[3]
    if verb in {"=", "!="}:
        return (value in other.split(", ")) == (verb == "=")
    if verb in {"equals", "differs from"}:
        return (value == row[other]) == (verb == "equals")
    if verb == ">=":
        return Decimal(value) >= Decimal(other)
    return {"is null": value == "", "is set": value != "", "is a unit": bool(UNIT.fullmatch(value))}[verb]
