"""Writes the cost export as a CSV or Parquet file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import IO, Any

from apps.invoicing.focus_columns import COLUMNS, Column, Row
from apps.pricing.rating import decimal_text

GROUP = 5_000  # rows in memory at once
DIGITS, PLACES = 76, 40  # fits every amount of the ledger exactly; some readers support only 38 digits


def focus_csv(rows: Iterator[Row]) -> Iterator[str]:
    """Yield the lines of the CSV file. Nulls are empty, and times are in UTC."""
    yield _line([column.name for column in COLUMNS])
    for row in rows:
        yield _line([_text(column, row) for column in COLUMNS])


def _line(cells: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(cells)
    return buffer.getvalue()


def _text(column: Column, row: Row) -> str:
    value = row[column.name]
    if value is None:
        return ""
    if column.kind == "decimal":
        return decimal_text(value)
    if column.kind == "datetime":
        return _instant(value, up=column.name.endswith("End"))
    if column.kind == "json":
        return json.dumps(value, sort_keys=True)
    return f"'{value}" if value[:1] in "=+-@\t\r" else str(value)


def _instant(value: datetime, *, up: bool) -> str:
    whole = value.astimezone(UTC).replace(microsecond=0)
    if up and whole < value:
        whole += timedelta(seconds=1)
    return f"{whole:%Y-%m-%dT%H:%M:%SZ}"


def focus_parquet(rows: Iterator[Row], file: IO[bytes]) -> None:
    """Write a Parquet file with exact decimals and UTC times."""
    import pyarrow as pa
    from pyarrow import parquet

    schema = pa.schema([pa.field(one.name, _arrow(one.kind), nullable=one.nullable) for one in COLUMNS])
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while group := list(islice(rows, GROUP)):
            columns = {one.name: [_plain(one, row[one.name]) for row in group] for one in COLUMNS}
            writer.write_table(pa.table(columns, schema=schema))


def _arrow(kind: str) -> Any:
    import pyarrow as pa

    types = {"decimal": pa.decimal256(DIGITS, PLACES), "datetime": pa.timestamp("us", tz="UTC")}
    return types.get(kind, pa.string())


def _plain(column: Column, value: Any) -> Any:
    return json.dumps(value, sort_keys=True) if column.kind == "json" and value is not None else value
