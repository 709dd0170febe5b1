"""What the command line says in place of the library's own words."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from compiler.errors import Hint

OPTIONS = {
    "dims": "--dim",
    "bounds": "--bound",
    "constants": "--constant",
    "target": "--target",
}  # by the library's argument


def spoken(hint: Hint) -> str:
    """A hint as options that can be typed."""
    given = [f"{k}={v}" for k, v in hint.example.items()] if isinstance(hint.example, Mapping) else [hint.example]
    return " ".join(f"{OPTIONS[hint.argument]} {shlex.quote(value)}" for value in given)
