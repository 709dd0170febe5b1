"""The differences between two price books as text."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from itertools import groupby
from typing import Any, NamedTuple

from apps.figures import percent_format, unit_price_format
from apps.pricing.draft_hours import LETTERS, MONTHS
from apps.pricing.models import PriceBook
from apps.pricing.selectors import Difference, book_differences

ABSENT = "not in the book"
_FIELDS = {
    "currency.code": "Currency",
    "currency.exponent": "Decimal places of the currency",
    "notice_days": "Notice before prices change, days",
    "quote_validity_minutes": "Validity of a quote, minutes",
    "floor": "Floor, share of the list price",
    "minimum_charge": "Minimum monthly charge",
    "contract_minimum": "Contract minimum",
    "free_tera_operations": "Free tera-operations every month",
    "missed_guarantee": "Credit for missed guaranteed work",
    "tariff.zone": "Tariff time zone",
    "version": "Version",
}
_CLASS_PARTS = {
    "title": "title",
    "promise": "promise",
    "surcharge": "surcharge",
    "discount": "discount",
    "unused": "price of unused time",
    "off_peak_only": "off-peak hours only",
    "start_within_minutes": "starts within, minutes",
    "finish_within_minutes": "finishes within, minutes",
    "offered": "offered",
    "time_of_use": "price follows the hours",
    "late_cancellation.notice_minutes": "late cancellation notice, minutes",
    "late_cancellation.share": "late cancellation share",
}
_PATTERNS = (
    (re.compile(r"prices\.([^.]+)\.(.+)"), "Price of a tera-operation, {0}, {1}"),
    (re.compile(r"minimum_operations_per_cycle\.([^.]+)\.(.+)"), "Minimum operations per cycle, {0}, {1}"),
    (re.compile(r"minimum_operations_per_cycle\.([^.]+)"), "Minimum operations per cycle, {0}"),
    (re.compile(r"commitments\.(.+)"), "Commitment {0}: factor"),
    (re.compile(r"commitment_days\.(.+)"), "Commitment {0}: term, days"),
)
_LIST = re.compile(r"tariff\.(weekday|weekend|periods|holidays)\[(\d+)\](?:\.(\w+))?")
_HOLIDAY = re.compile(r"tariff\.holidays\[(\d+-\d+-\d+)\]")
_PERIOD_PARTS = {"name": "name", "off_peak": "off-peak", "factor": "factor"}


class Row(NamedTuple):
    """A row of a comparison: a label, the path in the document, both values, and any relative change."""

    label: str
    place: str
    before: str
    after: str
    change: str


def rows_of(before: PriceBook, after: PriceBook) -> list[Row]:
    """Return every difference between two books except the version, sorted by path."""
    found = [one for one in book_differences(before, after) if one.place != "version"]
    codes = before.document["currency"]["code"], after.document["currency"]["code"]
    return [row_of(one, *codes) for one in found]


def row_of(difference: Difference, before: str, after: str) -> Row:
    """Return a difference as a row. `before` and `after` are the currencies of the two books."""
    values = [_value(difference.place, text) for text in (difference.before, difference.after)]
    if difference.place.startswith("prices."):
        priced = [
            _priced(text, code)
            for text, code in zip((difference.before, difference.after), (before, after), strict=True)
        ]
        values = priced if priced[0] != priced[1] else values
    return Row(label_of(difference.place), difference.place, values[0], values[1], _change(difference, before == after))


def label_of(place: str) -> str:
    """Return a label for a path in the document."""
    if place in _FIELDS:
        return _FIELDS[place]
    if place.startswith("classes."):
        _, name, part = place.split(".", 2)
        return f"Class {name}: {_CLASS_PARTS.get(part, part)}"
    for pattern, label in _PATTERNS:
        match = pattern.fullmatch(place)
        if match:
            return label.format(*match.groups())
    match = _HOLIDAY.fullmatch(place)
    if match:
        return f"Holiday {match[1]}"
    match = _LIST.fullmatch(place)
    return _list_label(*match.groups()) if match else place


def _list_label(kind: str, number: str, part: str | None) -> str:
    index = int(number)
    if kind == "periods":
        return f"Period {LETTERS[index]}: {_PERIOD_PARTS.get(part or '', part)}"
    if kind == "holidays":
        return f"Holiday {index + 1}: {part}"
    return f"{'Weekday' if kind == 'weekday' else 'Weekend'} hours, {MONTHS[index]}"


def _value(place: str, text: str | None) -> str:
    if text is None:
        return ABSENT
    value: Any = json.loads(text)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, list) and place.startswith("tariff."):
        return hours_text(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def hours_text(row: list[int]) -> str:
    """Return a row of 24 periods as ranges: "B 00-06, A 06-22, B 22-24"."""
    parts, hour = [], 0
    for index, some in groupby(row):
        count = len(list(some))
        parts.append(f"{LETTERS[index]} {hour:02d}-{hour + count:02d}")
        hour += count
    return ", ".join(parts)


def _priced(text: str | None, currency: str) -> str:
    return ABSENT if text is None else " ".join(unit_price_format(json.loads(text), currency, thing="tera-operation"))


def _change(difference: Difference, same_currency: bool) -> str:
    before, after = _decimal(difference.before), _decimal(difference.after)
    is_money = difference.place.startswith(("prices.", "minimum_charge", "contract_minimum"))
    if not before or after is None or (is_money and not same_currency):
        return ""
    share = after / before - 1
    return f"{'+' if share > 0 else ''}{percent_format(share, 1)}"


def _decimal(text: str | None) -> Decimal | None:
    value = json.loads(text) if text else None
    return Decimal(value) if isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]+)?", value) else None
