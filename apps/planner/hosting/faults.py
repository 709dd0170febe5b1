"""The faults of an imported file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SHOWN = 60  # characters of a value that a sentence repeats
LISTED = 20  # faults that a refusal lists


@dataclass(frozen=True)
class Fault:
    """A fault in a file, with its remedy. `line` is counted from 1; None means the whole file."""

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
    """Raised for a refused file. Holds the first faults and the total number of faults."""

    def __init__(self, faults: Sequence[Fault], count: int | None = None) -> None:
        self.faults = tuple(faults[:LISTED])
        self.count = len(faults) if count is None else count
        rest = self.count - len(self.faults)
        super().__init__(" ".join(str(fault) for fault in self.faults) + (f" And {rest:,} more." if rest else ""))


def shown(value: object) -> str:
    """Quote a value from the file on one line, shortened if necessary."""
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= SHOWN else text[: SHOWN - 1] + "…")
