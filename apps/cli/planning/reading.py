"""Reads TOML files by key. Each error message states the file, the key and the remedy."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from compiler.commands.files import unreadable

LARGEST = 64 * 2**20  # maximum bytes of a file
FINITE = Decimal(10) ** 15


class FileFault(Exception):
    """Raised if a file cannot be used. The message states the file, the place and the remedy."""

    def __init__(self, path: Path, place: str, said: str) -> None:
        super().__init__(f"{path}{f', {place}' if place else ''}: {said}")


def file_read(path: Path, what: str, *, named_by: str = "") -> bytes:
    """Return the bytes of a file. Raises FileFault if the file cannot be read.

    `what` names the kind of file, and `named_by` names the key that refers to the file.
    """
    tail = f" ({named_by} names it)" if named_by else ""
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise FileFault(path, "", f"it has {size:,} bytes, and at most {LARGEST:,} are read; give {what}{tail}.")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise FileFault(path, "", f"{unreadable(path, error, '', what).removeprefix(f'{path}: ')}{tail}.") from None


def toml_read(path: Path, what: str, form: str) -> Table:
    """Read a TOML file with the format `form`. Decimals stay exact. Raises FileFault."""
    data = file_read(path, what)
    try:
        text = data.decode("utf-8-sig")
        document = tomllib.loads(text, parse_float=Decimal)
    except UnicodeDecodeError as error:
        raise FileFault(path, f"byte {error.start + 1}", "it is not UTF-8 text; save it as UTF-8.") from None
    except (ValueError, RecursionError, InvalidOperation, OverflowError) as error:
        why = "its tables are nested too deeply" if isinstance(error, RecursionError) else str(error).rstrip(".")
        raise FileFault(path, "", f"it is not TOML: {why}. Correct the file.") from None
    table = Table(path, "", document)
    if document.get("format") != form:
        raise FileFault(
            path, "format", f'it must be "{form}", not {document.get("format")!r}; write format = "{form}".'
        )
    return table


def digest_of(data: bytes) -> str:
    """Return the SHA-256 digest in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


class Table:
    """A table of a TOML file. The methods raise FileFault if a value is not valid."""

    def __init__(self, path: Path, place: str, values: object) -> None:
        self.path, self.place = path, place
        if not isinstance(values, dict):
            raise FileFault(path, place, f"a table is expected here; write [{place}] and its keys below.")
        self.values: dict[str, Any] = values

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def at(self, key: str) -> str:
        """Return the full name of a key, such as "models.NAME.file"."""
        return f"{self.place}.{key}" if self.place else key

    def wrong(self, key: str, said: str) -> FileFault:
        """Return the FileFault for a wrong value of a key."""
        return FileFault(self.path, self.at(key), said)

    def only(self, known: Collection[str]) -> Table:
        """Return this table. Raises FileFault if the table contains an unknown key."""
        for key in self.values:
            if key not in known:
                close = get_close_matches(key, known, 1)
                hint = f"did you mean {close[0]}?" if close else f"the known keys are: {', '.join(sorted(known))}."
                raise self.wrong(key, f"there is no such key; {hint}")
        return self

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string. If there is no default, the key is required."""
        value = self.values.get(key, default)
        if not isinstance(value, str) or (not value and default is None) or not value.isprintable():
            raise self.wrong(key, f"write a text in quotes, not {_shown(value)}.")
        return value

    def path_of(self, key: str) -> Path:
        """Return a file's path, resolved relative to this TOML file."""
        return self.path.parent / self.text(key)

    def number(
        self, key: str, *, least: Decimal = Decimal(0), most: Decimal = FINITE, above: bool = False
    ) -> Decimal | None:
        """Return an exact decimal from `least` to `most`; None if the key is missing.

        If `above` is True, `least` itself is not allowed.
        """
        value = self.values.get(key)
        if value is None:
            return None
        span = f"{'above' if above else 'from'} {least} {'and at most' if above else 'to'} {most}"
        if isinstance(value, bool) or not isinstance(value, int | Decimal) or not Decimal(value).is_finite():
            raise self.wrong(key, f"write a number {span} without quotes, not {_shown(value)}.")
        found = Decimal(value)
        if not least <= found <= most or (above and found == least):
            raise self.wrong(key, f"{_shown(value)} is out of range; write a number {span}.")
        return found

    def whole(self, key: str, *, least: int = 1, most: int = 10**12) -> int | None:
        """Return a whole number from `least` to `most`; None if the key is missing."""
        found = self.number(key, least=Decimal(least), most=Decimal(most))
        if found is not None and found != int(found):
            raise self.wrong(key, f"write a whole number from {least:,} to {most:,}, not {found}.")
        return None if found is None else int(found)

    def instant(self, key: str) -> datetime | None:
        """Return an instant with its time zone; None if the key is missing."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, datetime) or value.tzinfo is None:
            raise self.wrong(key, f"write an instant with its zone, such as 2026-11-30T22:00:00Z, not {_shown(value)}.")
        return value.astimezone(UTC)

    def day(self, key: str) -> date:
        value = self.values.get(key)
        if isinstance(value, datetime) or not isinstance(value, date):
            raise self.wrong(key, f"write a date such as 2026-11-30, not {_shown(value)}.")
        return value

    def texts(self, key: str, default: Collection[str] = ()) -> list[str]:
        value = self.values.get(key, list(default))
        if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
            raise self.wrong(key, f'write a list of texts, such as ["float32", "int8"], not {_shown(value)}.')
        return list(dict.fromkeys(value))

    def counts(self, key: str) -> dict[str, int]:
        """Return a table of whole numbers."""
        inner = self.table(key)
        return {name: inner.whole(name) or 1 for name in inner.values} if inner else {}

    def table(self, key: str) -> Table | None:
        """Return a table; None if the key is missing."""
        return Table(self.path, self.at(key), self.values[key]) if key in self.values else None

    def tables(self, key: str) -> Iterator[tuple[str, Table]]:
        """Yield the name and table of each entry in a section, such as [models.NAME]."""
        section = self.table(key)
        for name in section.values if section else ():
            yield name, Table(self.path, f"{self.at(key)}.{name}", section.values[name])  # type: ignore[union-attr]

    def rows(self, key: str) -> Iterator[Table]:
        """Yield the tables of an array."""
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise self.wrong(key, f"write [[{self.at(key)}]] for each.")
        for number, one in enumerate(value, 1):
            yield Table(self.path, f"{self.at(key)} {number}", one)


def _shown(value: object) -> str:
    if isinstance(value, Decimal):
        return str(value)
    return "nothing" if value is None else repr(value)[:60]
