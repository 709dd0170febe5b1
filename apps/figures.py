"""Formats figures for readers: bytes, counts, cycles, durations, money and instants.

Pages, documents and messages format every figure here. No figure is computed in floating point: amounts are `Decimal`;
ratios and times are `Fraction`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from apps.currencies import places_of

Number = int | str | Decimal | Fraction | float
Currency = str | Mapping[str, Any]
"""An ISO 4217 code; or a document's own {"code", "exponent"}, which tells the places that the document was rounded to."""

NOT_KNOWN = "not known"
NARROW_SPACE = "\u202f"

_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_ENERGY = ("fJ", "pJ", "nJ", "µJ", "mJ", "J")
_DECIMAL = ("", "k", "M", "G", "T", "P", "E")
_TIME: Sequence[tuple[Fraction, str]] = (
    (Fraction(1), "s"),
    (Fraction(1, 10**3), "ms"),
    (Fraction(1, 10**6), "µs"),
    (Fraction(1, 10**9), "ns"),
)
SIGNIFICANT = 4  # digits of a unit price
READABLE = Decimal("0.01")
_SCALES = {1: "", 1000: "thousand", 10**6: "million"}
_SYMBOLS = {"EUR": "€", "USD": "$", "GBP": "£"}
_CONTEXT = Context(prec=120)


def fraction(value: Number | None) -> Fraction | None:
    """Convert `value`, such as "7/2", "1.5", 3 or a Decimal, to an exact fraction; None if `value` is not a number."""
    if value is None or isinstance(value, bool):
        return None
    try:
        return Fraction(value.strip() if isinstance(value, str) else value)
    except (ValueError, ZeroDivisionError, OverflowError):
        return None


def fixed(value: Fraction, places: int) -> str:
    """Format `value` with exactly `places` decimal places, rounded half to even, with commas between thousands."""
    scaled = round(value * 10**places)
    sign = "-" if scaled < 0 else ""
    whole, part = divmod(abs(scaled), 10**places)
    return f"{sign}{whole:,}" + (f".{part:0{places}d}" if places else "")


def _significant(value: Fraction, digits: int) -> str:
    magnitude = len(str(abs(int(value)))) if abs(value) >= 1 else 1
    return fixed(value, max(0, digits - magnitude))


def count_format(value: Number | None) -> str:
    """Format a count with commas between thousands: 1,234,567. A fraction gets two decimal places."""
    number = fraction(value)
    if number is None:
        return NOT_KNOWN
    return f"{int(number):,}" if number.denominator == 1 else fixed(number, 2)


def short_format(value: Number | None, unit: str = "") -> str:
    """Format a number with about three significant digits and a decimal prefix: 352 M, 1.24 G."""
    number = fraction(value)
    if number is None:
        return NOT_KNOWN
    step = 0
    while abs(number) >= 1000 and step < len(_DECIMAL) - 1:
        number, step = number / 1000, step + 1
    suffix = f"{_DECIMAL[step]}{unit}"
    text = f"{int(number):,}" if step == 0 and number.denominator == 1 else _significant(number, 3)
    return f"{text}{NARROW_SPACE}{suffix}" if suffix else text


def bytes_format(value: Number | None) -> str:
    """Format a size in binary units: 412 KiB, 3.2 MiB. A size below 1,024 is given in bytes."""
    number = fraction(value)
    if number is None:
        return NOT_KNOWN
    step = 0
    while abs(number) >= 1024 and step < len(_BINARY) - 1:
        number, step = number / 1024, step + 1
    text = f"{int(number):,}" if step == 0 else _significant(number, 3)
    return f"{text}{NARROW_SPACE}{_BINARY[step]}"


def cycles_format(value: Number | None) -> str:
    """Format a number of clock cycles."""
    number = fraction(value)
    return NOT_KNOWN if number is None else f"{count_format(number)}{NARROW_SPACE}cycles"


def shape_format(sizes: Iterable[object], alone: str = "one number") -> str:
    """Format a shape, such as 1 × 28 × 28; `alone` is the text for a shape without dimensions."""
    return " × ".join(f"{size:,}" if isinstance(size, int) else str(size) for size in sizes) or alone


def duration_format(seconds: Number | timedelta | None) -> str:
    """Format a duration in a suitable unit, such as 43.1 µs, 2.71 ms, 1.2 s or 2 h 4 min."""
    number = (
        Fraction(seconds // timedelta(microseconds=1), 10**6) if isinstance(seconds, timedelta) else fraction(seconds)
    )
    if number is None:
        return NOT_KNOWN
    if number == 0:
        return f"0{NARROW_SPACE}s"
    size = abs(number)
    if size < 60:
        factor, unit = next((pair for pair in _TIME if size >= pair[0]), _TIME[-1])
        return f"{_significant(number / factor, 3)}{NARROW_SPACE}{unit}"
    return ("-" if number < 0 else "") + _long_duration(int(size))


def elapsed_format(seconds: Number | None) -> str:
    """Format a duration that is measured to the millisecond. One that rounds to 0 is "less than 1 ms"."""
    return "less than 1 ms" if fraction(seconds) == 0 else duration_format(seconds)


def notice_format(minutes: int) -> str:
    """Format a notice period in hours if it is a whole number of hours, otherwise in minutes."""
    return f"{minutes // 60:,}{NARROW_SPACE}h" if minutes and minutes % 60 == 0 else f"{minutes:,}{NARROW_SPACE}min"


def _long_duration(seconds: int) -> str:
    parts: list[str] = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        amount, seconds = divmod(seconds, size)
        if amount or parts:
            parts.append(f"{amount}{NARROW_SPACE}{unit}" if amount else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part)


def energy_format(femtojoules: Number | None) -> str:
    """Format an energy, given in femtojoules, in a suitable unit, such as 812 pJ or 1.60 mJ."""
    number = fraction(femtojoules)
    if number is None:
        return NOT_KNOWN
    step = 0
    while abs(number) >= 1000 and step < len(_ENERGY) - 1:
        number, step = number / 1000, step + 1
    return f"{_significant(number, 3)}{NARROW_SPACE}{_ENERGY[step]}"


def percent_format(value: Number | None, places: int = 1) -> str:
    """Format a share (0 to 1) in per cent: 0.314 -> 31.4 %.

    Rounding never turns a share above 0 into 0 %, or a share below 1 into 100 %; such shares become "< 0.1 %" or ">
    99.9 %".
    """
    number = fraction(value)
    if number is None:
        return NOT_KNOWN
    least = Fraction(1, 10**places)
    if 0 < number * 100 < least / 2:
        return f"<{NARROW_SPACE}{fixed(least, places)}{NARROW_SPACE}%"
    if 100 - least / 2 <= number * 100 < 100:
        return f">{NARROW_SPACE}{fixed(100 - least, places)}{NARROW_SPACE}%"
    return f"{fixed(number * 100, places)}{NARROW_SPACE}%"


def share_format(share: Decimal) -> str:
    """Format an agreed share exactly, without trailing zeros: 0.4 -> 40 %, 0.375 -> 37.5 %."""
    return f"{(share * 100).normalize():f}{NARROW_SPACE}%"


def decimal(value: Decimal | int | str | None) -> Decimal | None:
    """Convert `value` to a Decimal; None if `value` is a float or not a finite number."""
    if value is None or isinstance(value, bool | float):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def money_format(amount: Decimal | int | str | None, currency: Currency) -> str:
    """Format an amount, rounded to its currency's minor unit: € 1,234.50, JPY 1,234, KWD 1.500.

    An unknown amount is shown as "not priced". An amount that would be rounded to zero keeps three significant digits.
    """
    number = decimal(amount)
    if number is None:
        return "not priced"
    code, places = _unit(currency)
    rounded = _rounded(number, places)
    if rounded == 0 and number != 0:
        rounded = _rounded(number, -number.adjusted() + 2)
    return _with_currency(f"{rounded:,f}", code)


def price_format(amount: Decimal | int | str | None, currency: Currency) -> str:
    """Format a unit price with four significant digits, and with at least the currency's decimal places: € 0.01423."""
    number = decimal(amount)
    if number is None:
        return "not priced"
    code, places = _unit(currency)
    rounded = _rounded(number, max(places, SIGNIFICANT - 1 - number.adjusted()) if number else places)
    whole, _, part = f"{rounded:,f}".partition(".")
    part = part.rstrip("0").ljust(places, "0")
    return _with_currency(f"{whole}.{part}" if part else whole, code)


def unit_price_scale(prices: Iterable[Decimal | None]) -> int:
    """Return the scale for unit prices: 1, a thousand or a million. `prices` are prices for one item.

    Returns the smallest scale at which every price is at least a hundredth of the currency's unit.
    """
    known = [one for one in prices if one]
    return next((scale for scale in _SCALES if all(one * scale >= READABLE for one in known)), max(_SCALES))


def unit_price_format(
    amount: Decimal | int | str | None,
    currency: Currency,
    *,
    thing: str = "execution",
    of: int = 1,
    scale: int | None = None,
) -> tuple[str, str]:
    """Format a unit price as a pair such as ("€ 0.01423", "per million executions").

    `amount` is the price of `of` things. If no `scale` is given, a readable scale is chosen.
    """
    number = decimal(amount)
    if number is None:
        return "not priced", ""
    one = _CONTEXT.divide(number, Decimal(of))
    scale = scale or unit_price_scale([one])
    name = _SCALES[scale]
    return price_format(
        _CONTEXT.multiply(one, Decimal(scale)), currency
    ), f"per {name} {thing}s" if name else f"per {thing}"


def plain(text: str) -> str:
    """Replace the currency symbol and narrow spaces in a formatted amount, for ASCII terminals: "€ 3.00" -> "EUR 3.00"."""
    for code, symbol in _SYMBOLS.items():
        text = text.replace(symbol, code)
    return text.replace(NARROW_SPACE, " ")


def money_exact_format(amount: Decimal | int | str | None, currency: Currency) -> str:
    """Format an amount with all its digits. Trailing zeros beyond the currency's decimal places are dropped."""
    number = decimal(amount)
    if number is None:
        return "not priced"
    code, places = _unit(currency)
    whole, _, part = f"{number:,f}".partition(".")
    part = part.rstrip("0").ljust(places, "0")
    return _with_currency(f"{whole}.{part}" if part else whole, code)


def _unit(currency: Currency) -> tuple[str, int]:
    if isinstance(currency, str):
        return currency.upper(), places_of(currency)
    return str(currency["code"]).upper(), int(currency["exponent"])


def _rounded(number: Decimal, places: int) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_EVEN, context=_CONTEXT)


def _with_currency(text: str, code: str) -> str:
    # A minus sign comes first: -€ 3.00.
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    return f"{sign}{_SYMBOLS.get(code, code)}{NARROW_SPACE}{digits}"


def instant_format(at: datetime | None, zone: str = "UTC", *, seconds: bool = False) -> str:
    """Format an instant in a time zone, to the minute or second: 2026-11-21 22:05 CET."""
    if at is None:
        return NOT_KNOWN
    local = at.astimezone(UTC if zone == "UTC" else ZoneInfo(zone))
    return local.strftime("%Y-%m-%d %H:%M:%S %Z" if seconds else "%Y-%m-%d %H:%M %Z")


def period_format(start: datetime | None, end: datetime | None, zone: str = "UTC") -> str:
    """Format a half-open period in a time zone. If the period starts and ends on the same day, the date appears only
    once.
    """
    if start is None or end is None:
        return NOT_KNOWN
    first, last = (at.astimezone(UTC if zone == "UTC" else ZoneInfo(zone)) for at in (start, end))
    tail = "%H:%M %Z" if first.date() == last.date() else "%Y-%m-%d %H:%M %Z"
    return f"{first.strftime('%Y-%m-%d %H:%M')} to {last.strftime(tail)}"
