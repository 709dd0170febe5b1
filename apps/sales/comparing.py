"""Comparisons of quotes. The first quote is the baseline."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django.http import HttpResponse

from apps.figures import (
    count_format,
    duration_format,
    instant_format,
    money_exact_format,
    percent_format,
    unit_price_format,
)
from apps.sales.exports import line_machine, step_of, text_cell
from apps.sales.models import FormName, Quote
from apps.sales.snapshots import snapshot_of_line

MOST_COLUMNS = 4


@dataclass(frozen=True)
class Cell:
    """One value of a quote.

    `differs`: True if the value differs from the baseline. `change`: the relative change from the baseline; None if the
    values are not comparable numbers.
    """

    text: str
    value: str
    differs: bool
    change: Fraction | None

    @property
    def change_text(self) -> str:
        if self.change is None or self.change == 0:
            return ""
        text, more = percent_format(abs(self.change)), self.change > 0
        if text[0] in "<>":  # a sign before it would read as an arrow
            return f"{'over' if text[0] == '>' else 'under'} {text[1:].strip()} {'more' if more else 'less'}"
        return f"{'+' if more else '-'}{text}"

    @property
    def tone(self) -> str:
        return "same" if not self.change_text else "ok" if self.change and self.change < 0 else "bad"


@dataclass(frozen=True)
class Row:
    """One row of the comparison. The first cell is the baseline."""

    name: str
    title: str
    cells: tuple[Cell, ...]

    @property
    def differs(self) -> bool:
        return any(cell.differs for cell in self.cells)


@dataclass(frozen=True)
class Field:
    """The definition of a row.

    `exact` and `shown` return a quote's value as exact text and as text for display. `number` returns the value as a
    number; None for rows of text.
    """

    name: str
    title: str
    exact: Callable[[Quote], str]
    shown: Callable[[Quote], str]
    number: Callable[[Quote], Fraction] | None = None


def compare(quotes: Sequence[Quote], *, now: datetime) -> list[Row]:
    """Return the rows of the comparison."""
    fields = [*_fields(now), *_line_fields(quotes)]
    return [_row(field, quotes) for field in fields]


def compare_json(quotes: Sequence[Quote], *, now: datetime) -> dict[str, Any]:
    """Return the comparison as a JSON document."""
    return {
        "baseline": str(quotes[0].id),
        "quotes": [
            {"id": str(quote.id), "number": quote.reference, "name": quote.name, "digest": quote.digest}
            for quote in quotes
        ],
        "rows": [
            {
                "name": row.name,
                "title": row.title,
                "differs": row.differs,
                "values": [cell.value for cell in row.cells],
                "changes": [None if cell.change is None else str(cell.change) for cell in row.cells],
            }
            for row in compare(quotes, now=now)
        ],
    }


def compare_csv(quotes: Sequence[Quote], *, now: datetime) -> str:
    """Return the comparison as CSV, with one row for each property."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["fact", *(str(quote.id) for quote in quotes), "differs"])
    for row in compare(quotes, now=now):
        differing = " ".join(str(number) for number, cell in enumerate(row.cells, 1) if cell.differs)
        writer.writerow([text_cell(row.title), *(text_cell(cell.value) for cell in row.cells), differing])
    return buffer.getvalue()


def comparison_response(quotes: Sequence[Quote], kind: str, *, now: datetime) -> HttpResponse:
    """Return the comparison as a CSV or JSON download."""
    if kind == "csv":
        response = HttpResponse(compare_csv(quotes, now=now), content_type="text/csv; charset=utf-8")
    else:
        text = json.dumps(compare_json(quotes, now=now), indent=1, ensure_ascii=False) + "\n"
        response = HttpResponse(text, content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="quotes-compared.{kind}"'
    return response


def _row(field: Field, quotes: Sequence[Quote]) -> Row:
    base, *_ = quotes
    return Row(field.name, field.title, tuple(_cell(field, base, quote) for quote in quotes))


def _cell(field: Field, base: Quote, quote: Quote) -> Cell:
    value = field.exact(quote)
    change: Fraction | None = None
    if field.number is not None and field.number(base) > 0 and quote.currency == base.currency:
        change = field.number(quote) / field.number(base) - 1
    return Cell(field.shown(quote), value, value != field.exact(base), change)


def _fields(now: datetime) -> list[Field]:
    return [
        _words("number", "Number", lambda quote: quote.reference),
        _words("name", "Name", lambda quote: quote.name),
        _words("state", "State", lambda quote: quote.display_state(now=now)),
        _money("net", "Maximum net price"),
        _money("expected", "Expected"),
        _money("payable", "Payable"),
        _words("class", "Class", lambda quote: quote.document["class"]["title"]),
        _words("form", "Form", _form_sentence),
        _words("pool", "Pool", lambda quote: quote.document["pool"]["slug"]),
        _words("processor", "Processor class", lambda quote: quote.document["pool"]["processor_class"]),
        _time("begins", "Window start", lambda quote: quote.document["window"]["start"]),
        _time("ends", "Window end", lambda quote: quote.document["window"]["end"]),
        _time("runs", "Planned start", _runs),
        Field(
            "device_seconds",
            "Reserved time",
            lambda quote: quote.document["device_seconds"],
            lambda quote: duration_format(quote.document["device_seconds"]),
            lambda quote: Fraction(quote.document["device_seconds"]),
        ),
        _words("book", "Price book", lambda quote: str(quote.document["book"]["version"])),
        _time("valid_until", "Price locked until", lambda quote: quote.document["valid_until"]),
    ]


def _line_fields(quotes: Sequence[Quote]) -> Iterable[Field]:
    for index in range(max(len(quote.document["lines"]) for quote in quotes)):
        name, title = f"line{index + 1}", f"Line {index + 1}"

        def line_of(quote: Quote, index: int = index) -> dict[str, Any] | None:
            lines: list[dict[str, Any]] = quote.document["lines"]
            return lines[index] if index < len(lines) else None

        yield _of_line(f"{name}.program", f"{title}: program", line_of, _line_title)
        yield _of_line(
            f"{name}.digest", f"{title}: digest", line_of, lambda line: snapshot_of_line(line).digest, shown=12
        )
        yield _of_line(f"{name}.volume", f"{title}: volume", line_of, _volume)
        yield _count(f"{name}.billed", f"{title}: billed operations", line_of, lambda line: _step(line, "billed"))
        yield _price(
            f"{name}.price",
            f"{title}: price per tera-operation",
            line_of,
            lambda line: _factor(line, "list"),
            _unit_price,
        )
        yield _price(
            f"{name}.amount", f"{title}: amount", line_of, lambda line: str(line["amount"]), money_exact_format
        )


LineOf = Callable[[Quote], "dict[str, Any] | None"]


def _of_line(name: str, title: str, of: LineOf, read: Callable[[dict[str, Any]], str], shown: int = 0) -> Field:
    def exact(quote: Quote) -> str:
        line = of(quote)
        return "" if line is None else read(line)

    return Field(name, title, exact, lambda quote: (exact(quote)[: shown or None]) or "-")


def _count(name: str, title: str, of: LineOf, read: Callable[[dict[str, Any]], str]) -> Field:
    def number(quote: Quote) -> Fraction:
        line = of(quote)
        return Fraction(0 if line is None else read(line))

    def exact(quote: Quote) -> str:
        return "" if of(quote) is None else str(number(quote))

    return Field(name, title, exact, lambda quote: count_format(int(exact(quote))) if exact(quote) else "-", number)


def _unit_price(price: str, currency: str) -> str:
    return " ".join(unit_price_format(price, currency, thing="tera-operation"))


def _price(
    name: str, title: str, of: LineOf, read: Callable[[dict[str, Any]], str], shown: Callable[[str, str], str]
) -> Field:
    def exact(quote: Quote) -> str:
        line = of(quote)
        return "" if line is None else read(line)

    return Field(
        name,
        title,
        exact,
        lambda quote: shown(exact(quote), quote.currency) if exact(quote) else "-",
        lambda quote: Fraction(exact(quote) or 0),
    )


def _words(name: str, title: str, read: Callable[[Quote], str]) -> Field:
    return Field(name, title, read, read)


def _time(name: str, title: str, read: Callable[[Quote], str]) -> Field:
    return Field(
        name,
        title,
        read,
        lambda quote: instant_format(datetime.fromisoformat(read(quote)), seconds=True) if read(quote) else "no room",
    )


def _money(name: str, title: str) -> Field:
    return Field(
        name,
        title,
        lambda quote: f"{quote.document[name]} {quote.currency}",
        lambda quote: money_exact_format(quote.document[name], quote.currency),
        lambda quote: Fraction(Decimal(quote.document[name])),
    )


def _runs(quote: Quote) -> str:
    windows = quote.document["reservation"] or []
    return min((str(one["start"]) for one in windows), default="")


def _form_sentence(quote: Quote) -> str:
    every = (quote.document.get("form") or {}).get("every")
    return FormName(quote.form).label + (f", every {every} s" if every else "")


def _line_title(line: dict[str, Any]) -> str:
    snapshot = snapshot_of_line(line)
    return f"{snapshot.model}, {snapshot.precision}, on {line_machine(line)}"


def _volume(line: dict[str, Any]) -> str:
    snapshot = snapshot_of_line(line)
    return f"{snapshot.operations:,} operations" if snapshot.is_quota else f"{line['executions']:,} executions"


def _step(line: dict[str, Any], name: str) -> str:
    return step_of(line, name)["result"]


def _factor(line: dict[str, Any], name: str) -> str:
    return step_of(line, name)["factor"]
