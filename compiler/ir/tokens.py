"""The words of a text form, read from the left, and where each of them stands."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterable
from difflib import get_close_matches

from compiler.errors import ModelError
from compiler.ir.types import DType, TensorType

_TOKEN = re.compile(
    r'("(?:[^"\\\n]++|\\[^\n])*+"|-?inf\b|nan\b|-?\d++(?:\.\d*+)?(?:e[+-]?\d++)?(?![\w])|\w++|[][{}();:,=*+-])'
)
_BETWEEN = re.compile(r"(?:\s++|#[^\n]*+)*+")
_BASE64 = re.compile(r"[A-Za-z0-9+/=\s]*+")
LONG = 80  # characters of a word that is compared with others


def meant(token: str, known: Iterable[str]) -> str:
    """The known word that looks most like a token, as the end of a sentence."""
    close = get_close_matches(token, sorted(known), 1) if len(token) <= LONG else []
    return f"; did you mean {close[0]!r}?" if close else ""


class Reader:
    """The tokens of one text, read from the left, one ahead. ``ModelError`` names the line of what cannot be read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.line = 1  # of the token that was read last
        self._start = self._end = 0  # of that token
        self._ahead: re.Match[str] | None = None

    def _place(self, at: int) -> str:
        """Where a character stands, in words."""
        line = self.line + self.text.count("\n", self._start, at)
        return f"Line {line}, column {at - self.text.rfind(chr(10), 0, at)} of the text form"

    def peek(self) -> str:
        """The next token, without reading it; empty at the end."""
        if self._ahead is None:
            between = _BETWEEN.match(self.text, self._end)
            at = between.end() if between else self._end
            if at == len(self.text):
                return ""
            self._ahead = _TOKEN.match(self.text, at)
            if self._ahead is None:
                rest = self.text[at : at + 30].partition("\n")[0]
                raise ModelError(f"{self._place(at)} cannot be read from {rest!r} on.")
        return self._ahead[1]

    def next(self, expected: str | None = None) -> str:
        token = self.peek()
        if not token or (expected is not None and token != expected):
            place = self._place(self._ahead.start() if self._ahead else self._start)
            raise ModelError(f"{place}: {expected or 'more'} is expected, not {token[:40] or 'its end'!r}.")
        assert self._ahead is not None
        self.line += self.text.count("\n", self._start, self._ahead.start())
        self._start, self._end = self._ahead.span()
        self._ahead = None
        return token

    def wrong(self, message: str) -> ModelError:
        """What to raise about the token that was read last."""
        return ModelError(f"{self._place(self._start)}: {message}{'' if message.endswith('?') else '.'}")

    def base64(self) -> bytes:
        """What the base64 up to a semicolon stands for."""
        assert self._ahead is None
        found = _BASE64.match(self.text, self._end)
        assert found is not None
        self._end = found.end()
        if self.peek() != ";":
            self.next(";")  # says what is there instead
        try:
            return b64decode("".join(found[0].split()), validate=True)
        except ValueError:
            raise self.wrong("what follows is no whole base64") from None

    def accept(self, token: str) -> bool:
        if self.peek() != token:
            return False
        self.next()
        return True

    def string(self) -> str:
        token = self.next()
        if not token.startswith('"'):
            raise self.wrong(f"{token[:40]!r} is not a quoted name")
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
            raise self.wrong(f"{token[:40]!r} is not a number") from None

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
