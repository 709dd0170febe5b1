"""Read price lists from CSV: SkyPilot catalogues, FOCUS 1.2 files and plain lists.

Prices are exact decimals in one currency, per hour of the whole machine.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass

from apps.planner.hosting.cells import Cells, Format, Layout, Price, Refused
from apps.planner.hosting.faults import Fault, Unreadable, shown
from apps.planner.hosting.formats import LAYOUTS

BYTES_MAX, ROWS_MAX, CELL_MAX = 4 * 2**20, 20_000, 4000
FEWER = "keep the rows of the machines that you consider"
SAVE = "save the file as CSV in UTF-8"
NAMES = ("instancetype", "machine", "skuid", "skumeter")  # columns that name a row for a reader
SHORT = 60

Found = dict[tuple[str, str, str, bool], tuple[str, Price]]
"""By key: the date of the price (if rows may repeat) and the price."""


@dataclass(frozen=True)
class PriceList:
    """A checked price list, in the order of the file. `left_out` is the number of skipped rows."""

    format: Format
    currency: str
    prices: tuple[Price, ...]
    left_out: int


def pricelist_read(data: bytes, kind: Format) -> PriceList:
    """Read a price list. Raises Unreadable with the first faults and the total number of faults."""
    layout = LAYOUTS[kind]
    rows = _rows(data, layout)
    found: Found = {}
    faults: list[Fault] = []
    currency, left_out = "", 0
    for line, cells in rows:
        try:
            read = layout.read(cells, line)
            if read is None:
                left_out += 1
                continue
            code, price = read
            currency = currency or code
            if code != currency:
                raise Refused(
                    f"the rows before are in {currency}, this one is in {code}; import it as a separate list.",
                    "currency",
                )
            when = layout.newest(cells) if layout.newest else ""
            _keep(found, price, when, may_repeat=layout.newest is not None)
        except Refused as error:
            faults.append(Fault(str(error), line, _name(cells), error.column))
    if faults:
        raise Unreadable(faults)
    if not found:
        raise Unreadable([Fault(f"The file has no machine prices ({left_out:,} rows are for other products).")])
    return PriceList(kind, currency, tuple(price for _, price in found.values()), left_out)


def _keep(found: Found, price: Price, when: str, *, may_repeat: bool) -> None:
    then, before = found.get(price.key, ("", None))
    if before is None or (may_repeat and when >= then):
        found[price.key] = (when, price)
    elif not may_repeat:
        place = " ".join(part for part in (price.region, price.zone) if part) or "no region"
        said = f"{shown(price.machine)} in {place} is in line {before.line} already; remove one of the two."
        raise Refused(said, "machine")


def _name(cells: Cells) -> str:
    values = (cells.values.get(column, "").strip() for column in NAMES)
    value = next((one for one in values if one), "")
    return value if len(value) <= SHORT else value[: SHORT - 1] + "…"


def _rows(data: bytes, layout: Layout) -> Iterator[tuple[int, Cells]]:
    text = _text(data)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip().casefold() for name in next(reader, [])]
        _header_check(header, layout)
        begins = reader.line_num + 1
        for count, row in enumerate(reader, start=1):
            line, begins = begins, reader.line_num + 1
            if count > ROWS_MAX:
                raise Unreadable([Fault(f"The list has more than {ROWS_MAX:,} rows; {FEWER}.")])
            if not any(cell.strip() for cell in row):
                continue
            _shape_check(row, header, line)
            yield line, Cells(dict(zip(header, row, strict=True)))
    except csv.Error as error:
        raise Unreadable([Fault(f"the row is not CSV: {error}; check its quotes.", reader.line_num)]) from error


def _shape_check(row: list[str], header: list[str], line: int) -> None:
    if len(row) != len(header):
        message = f"the row has {len(row)} cells, the header {len(header)}; put text with commas in double quotes."
        raise Unreadable([Fault(message, line, row[0][:SHORT])])
    if any(len(cell) > CELL_MAX for cell in row):
        raise Unreadable([Fault(f"a cell has more than {CELL_MAX:,} characters; shorten it.", line, row[0][:SHORT])])


def _text(data: bytes) -> str:
    if len(data) > BYTES_MAX:
        raise Unreadable([Fault(f"The file is {len(data):,} bytes; at most {BYTES_MAX:,} are allowed; {FEWER}.")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise Unreadable([Fault(f"the row is not UTF-8 text; {SAVE}.", line)]) from None
    if "\0" in text:
        line = text[: text.index("\0")].count("\n") + 1
        raise Unreadable([Fault(f"the row contains the character NUL; {SAVE}.", line)])
    return text


def _header_check(header: list[str], layout: Layout) -> None:
    missing = [name for name in layout.needed if name.casefold() not in header]
    if missing:
        needs = ", ".join(layout.needed)
        raise Unreadable([Fault(f"the header has no column {', '.join(missing)}; this format needs {needs}.", 1)])
    twice = sorted({name for name in header if name and header.count(name) > 1})
    if twice:
        raise Unreadable([Fault(f"the header has {', '.join(twice)} twice; remove one.", 1)])
