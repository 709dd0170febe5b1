"""The faults of an imported file, each with its place and remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SHOWN = 60  # characters of a value that a sentence repeats
LISTED = 20  # faults that a refusal lists


@dataclass(frozen=True)
class Fault:
    """A fault of a file.

    `message` is the fault and its remedy. `line` is counted from 1; None if the fault concerns the whole file. `name`
    is the machine in the faulty row. `column` is the faulty column or field.
    """

    message: str
    line: int | None = None
    name: str = ""
    column: str = ""

    def __str__(self) -> str:
        row = f" ({self.name})" if self.name else ""
        place = f"line {self.line}{row}" if self.line is not None else ""
        where = ", ".join(
            part for part in (place, f"column {self.column}" if self.column and place else self.column) if part
        )
        return f"{where}: {self.message}" if where else self.message


class Unreadable(ValueError):
    """Raised if a file is refused. Holds its first faults and the number of all faults."""

    def __init__(self, faults: Sequence[Fault], count: int | None = None) -> None:
        self.faults = tuple(faults[:LISTED])
        self.count = len(faults) if count is None else count
        rest = self.count - len(self.faults)
        super().__init__(" ".join(str(fault) for fault in self.faults) + (f" And {rest:,} more." if rest else ""))


def shown(value: object) -> str:
    """Quote a value from the file on one line, shortened if necessary."""
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= SHOWN else text[: SHOWN - 1] + "…")
