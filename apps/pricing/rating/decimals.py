"""Decimal arithmetic that is exact or fails, but never rounds."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from decimal import (
    ROUND_HALF_EVEN,
    Clamped,
    Context,
    Decimal,
    DivisionByZero,
    FloatOperation,
    Inexact,
    InvalidOperation,
    Overflow,
    Underflow,
)
from typing import Any

PRICE_PLACES = 12
FACTOR_PLACES = 4
MAX_FACTORS = 4
AMOUNT_PLACES = 40
TERA = 12  # a price is for 10^12 operations

CONTEXT = Context(
    prec=120,
    rounding=ROUND_HALF_EVEN,
    traps=[Inexact, InvalidOperation, DivisionByZero, Overflow, Underflow, Clamped, FloatOperation],
)

_PLAIN = re.compile(r"-?[0-9]{1,60}(\.[0-9]{1,60})?")  # \d would take the digits of other scripts too


def decimal_of(text: object, *, places: int) -> Decimal:
    """Parse plain decimal text ("0.0080") with at most `places` decimal places. Raises ValueError for any other input."""
    if not isinstance(text, str) or not _PLAIN.fullmatch(text):
        raise ValueError(f'{text!r} is not a plain decimal in quotes such as "0.60"')
    value = Decimal(text)
    if len(text.partition(".")[2].rstrip("0")) > places:
        raise ValueError(f"{text} has more than {places} decimal places")
    return value


def multiply(left: Decimal, right: Decimal | int) -> Decimal:
    """Return the exact product. Raises decimal.Inexact if the product would have to be rounded."""
    return CONTEXT.multiply(left, Decimal(right) if isinstance(right, int) else right)


def subtract(left: Decimal, right: Decimal) -> Decimal:
    """Return the exact difference."""
    return CONTEXT.subtract(left, right)


def exact_sum(values: Iterable[Decimal]) -> Decimal:
    """Return the exact sum; 0 for no values."""
    total = Decimal(0)
    for value in values:
        total = CONTEXT.add(total, value)
    return total


def decimal_text(value: Decimal) -> str:
    """Return the canonical text of a value, without an exponent or trailing zeros. Equal values have equal texts."""
    text = str(value)  # a third of the work of a format, which only values with an exponent need
    if "E" in text:
        text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def amount_text(value: Decimal, *, exponent: int) -> str:
    """Return an exact amount as text, with commas between thousands and at least `exponent` decimal places."""
    text = decimal_text(value)
    sign, text = ("-", text[1:]) if text.startswith("-") else ("", text)
    whole, _, fraction = text.partition(".")
    fraction = fraction.ljust(exponent, "0")
    return f"{sign}{int(whole):,}" + (f".{fraction}" if fraction else "")


def canonical_json(document: Any) -> str:
    """Return the canonical JSON of a document: sorted keys, no spaces. Floats are refused."""
    _refuse_floats(document)
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_of(document: Any) -> str:
    """Return the SHA-256 (hex) of a document's canonical JSON."""
    return hashlib.sha256(canonical_json(document).encode()).hexdigest()


def _refuse_floats(document: Any) -> None:
    if isinstance(document, float):
        raise TypeError(f"{document!r} is a float; write money and factors as decimals in quotes")
    if isinstance(document, dict):
        for value in document.values():
            _refuse_floats(value)
    elif isinstance(document, list | tuple):
        for value in document:
            _refuse_floats(value)
