"""The words of a text form, read from the left, and where each of them stands."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from difflib import get_close_matches

from compiler.errors import ModelError
from compiler.ir.types import DType, TensorType

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|-?inf\b|nan\b|-?\d+(?:\.\d*)?(?:e[+-]?\d+)?(?![\w])|\w+|[][{}();:,=*+-])')
_COMMENT = re.compile(r"\s*#")


def meant(token: str, known: Iterable[str]) -> str:
    """The known word that looks most like a token, as the end of a sentence."""
    close = get_close_matches(token, sorted(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


class Reader:
    """The tokens of one text, read from the left."""

    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        self.lines: list[int] = []
        self.columns: list[int] = []
        for number, line in enumerate(map(str.rstrip, text.split("\n")), 1):
            place = 0
            while place < len(line) and not _COMMENT.match(line, place):
                match = _TOKEN.match(line, place)
                if match is None:
                    rest = line[place:].lstrip()
                    at = f"Line {number}, column {len(line) - len(rest) + 1} of the text form"
                    raise ModelError(f"{at} cannot be read from {rest[:30]!r} on.")
                self.tokens.append(match[1])
                self.lines.append(number)
                self.columns.append(match.start(1) + 1)
                place = match.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self, expected: str | None = None) -> str:
        token = self.peek()
        if not token or (expected is not None and token != expected):
            place = self.place(self.at if token else len(self.tokens) - 1)
            raise ModelError(f"{place}: {expected or 'more'} is expected, not {token[:40] or 'its end'!r}.")
        self.at += 1
        return token

    def wrong(self, message: str) -> ModelError:
        """What to raise about the token that was read last."""
        return ModelError(f"{self.place(self.at - 1)}: {message}{'' if message.endswith('?') else '.'}")

    def place(self, token: int) -> str:
        """Where a token stands, in words."""
        line, column = (self.lines[token], self.columns[token]) if self.tokens else (1, 1)
        return f"Line {line}, column {column} of the text form"

    @property
    def line(self) -> int:
        return self.lines[self.at - 1]

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.at += 1
        return True

    def string(self) -> str:
        token = self.next()
        if not token.startswith('"'):
            raise self.wrong(f"{token!r} is not a quoted name")
        try:
            text = str(json.loads(token))
            text.encode()
        except ValueError:
            raise self.wrong(f"{token[:40]} is no JSON string") from None
        return text

    def strings(self) -> tuple[str, ...]:
        found = []
        while self.peek().startswith('"'):
            found.append(self.string())
        return tuple(found)

    def literal(self) -> int | float:
        token = self.next()
        try:
            return self.whole(token) if re.fullmatch(r"-?\d+", token) else float(token)
        except ValueError:
            raise self.wrong(f"{token!r} is not a number") from None

    def whole(self, token: str) -> int:
        """Digits as a number; no place, size or value has more than 20 of them."""
        if len(token) > 21:
            raise self.wrong(f"{token[:40]}... is too large")
        return int(token)

    def integer(self) -> int:
        value = self.literal()
        if not isinstance(value, int):
            raise self.wrong(f"{value} is not a whole number")
        return value

    def integers(self) -> tuple[int, ...]:
        self.next("[")
        found = []
        while not self.accept("]"):
            found.append(self.integer())
            self.accept(",")
        return tuple(found)

    def dtype(self) -> DType:
        token = self.next()
        try:
            return DType(token)
        except ValueError:
            known = (kind.value for kind in DType)
            raise self.wrong(f"{token[:40]!r} is no element type{meant(token, known)}") from None

    def type(self) -> TensorType:
        return TensorType(self.dtype(), self.integers())
