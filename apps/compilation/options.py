"""Options of a compile beyond sizes and precision: states, caches with a context, and bounds of loops.

They are stored as one object with the keys `states`, `caches` (output by input), `bounds` (trips by loop) and `context` (rows);
keys without content are left out, so programs without options keep their digest. Pure functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, TypeVar

CONTEXT_MAX = 2**20
TRIPS_MAX = 2**20
PAIR = "Write one INPUT=OUTPUT on a line, for example past=present."
TRIPS = f"Write one LOOP=TRIPS on a line, with a whole number from 0 to {TRIPS_MAX:,}, for example loop=20."
VALUE = "Write one INPUT=VALUE on a line, for example sr=16000 or ids=[1, 2]."

T = TypeVar("T")


class OptionError(ValueError):
    """Raised if a text of the form can't be read. The message says what to write."""


def options_of(
    *,
    states: Mapping[str, str] | None = None,
    caches: Mapping[str, str] | None = None,
    bounds: Mapping[str, int] | None = None,
    context: int | None = None,
) -> dict[str, Any]:
    """Return the options in their stored form."""
    pairs = {"states": states, "caches": caches, "bounds": bounds}
    found: dict[str, Any] = {name: dict(sorted(value.items())) for name, value in pairs.items() if value}
    return found if context is None else {**found, "context": context}


def keeps_state(options: Mapping[str, Any]) -> bool:
    """Return whether values stay on the processor from one execution to the next."""
    return bool(options.get("states")) or "context" in options


def arguments_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options as `compiler.load` takes them."""
    return {
        "states": list(options.get("states", {}).items()),
        "caches": list(options.get("caches", {}).items()),
        "bounds": options.get("bounds", {}),
        "context": options.get("context"),
    }


def options_text(options: Mapping[str, Any]) -> str:
    """Return the options in words: "context 256, 2 states"; empty if there are none."""
    parts = [f"context {options['context']:,}"] if "context" in options else []
    for name, one in (("states", "state"), ("bounds", "loop bound")):
        count = len(options.get(name, {}))
        parts += [f"{count} {one}{'s' if count > 1 else ''}"] if count else []
    return ", ".join(parts)


def pairs_read(text: str) -> dict[str, str]:
    """Return the pairs of a form's field. Raises OptionError."""
    return _lines_read(text, str, PAIR)


def bounds_read(text: str) -> dict[str, int]:
    """Return the trips by loop of a form's field. Raises OptionError."""
    return _lines_read(text, _trips, TRIPS)


def constants_read(text: str) -> dict[str, Any]:
    """Return the values by input of a form's field. Raises OptionError."""
    return _lines_read(text, _value, VALUE)


def _lines_read(text: str, read: Callable[[str], T], form: str) -> dict[str, T]:
    found: dict[str, T] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        name, _, value = (part.strip() for part in line.partition("="))
        if not name or not value:
            raise OptionError(f"{form} This line is not in that form: {line[:60]!r}.")
        if name in found:
            raise OptionError(f"{name[:60]!r} is named twice. Name it once.")
        try:
            found[name] = read(value)
        except (ValueError, RecursionError):
            raise OptionError(f"{form} This line is not in that form: {line[:60]!r}.") from None
    return found


def _trips(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise ValueError
    return int(text)


def _value(text: str) -> Any:
    value = json.loads(text, parse_constant=_not_a_number)
    if not _is_numeric(value):
        raise ValueError
    return value


def _not_a_number(_name: str) -> Any:
    raise ValueError


def _is_numeric(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_numeric, value))
    return isinstance(value, bool | int) or (isinstance(value, float) and isfinite(value))
