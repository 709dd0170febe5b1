"""Reading numbers back from what people get: rendered pages, printed papers, files. Knows none of the code that wrote them."""

from __future__ import annotations

import csv
import io
import re
from decimal import Decimal
from html.parser import HTMLParser

from pypdf import PdfReader

Row = list[str]


class Page(HTMLParser):
    """The rows of every table of a page, tables in tables on their own, and its headline figures by their labels."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tables: list[list[Row]] = []
        self.metrics: dict[str, list[str]] = {}
        self._open: list[list[Row]] = []
        self._in_cell: list[bool] = []
        self._metric: list[str] | None = None
        self._depth = 0
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        css = (dict(attrs).get("class") or "").split()
        if tag == "table":
            self._open.append([])
            self._in_cell.append(False)
        elif tag == "tr" and self._open:
            self._open[-1].append([])
        elif tag in {"td", "th"} and self._open and self._open[-1]:
            self._open[-1][-1].append("")
            self._in_cell[-1] = True
        if tag == "div" and "metric" in css:
            self._metric, self._depth = [], 0
        elif tag == "div" and self._metric is not None:
            self._depth += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == "table" and self._open:
            self.tables.append([row for row in self._open.pop() if row])
            self._in_cell.pop()
        elif tag in {"td", "th"} and self._in_cell:
            self._in_cell[-1] = False
        elif tag == "div" and self._metric is not None:
            self._depth -= 1
            if self._depth < 0:
                if self._metric:
                    self.metrics[self._metric[0]] = self._metric[1:]
                self._metric = None

    def handle_data(self, data: str) -> None:
        said = " ".join(data.split())
        if not said:
            return
        if self._metric is not None:
            self._metric.append(said)
        if self._open and self._in_cell[-1]:
            row = self._open[-1][-1]
            row[-1] = f"{row[-1]} {said}".strip()

    def rows(self, *words: str) -> list[Row]:
        """Every row that has all these words in its cells."""
        return [
            row for table in self.tables for row in table if all(any(word in cell for cell in row) for word in words)
        ]

    def row(self, *words: str) -> Row:
        """The one row with these words."""
        (found,) = self.rows(*words)
        return found


AMOUNT = re.compile(r"(-?)€[\s\u202f]*([\d,]+(?:\.\d+)?)")


def money(text: str) -> Decimal:
    """An amount as pages write it: sign, currency, digits."""
    found = AMOUNT.fullmatch(text.strip())
    assert found is not None, f"{text!r} is no amount"
    return Decimal(found[1] + found[2].replace(",", ""))


def amounts(cells: Row) -> list[Decimal]:
    """Of the cells those that begin with an amount, in their order; "none" is a difference of nought."""
    found = [(cell, AMOUNT.match(cell)) for cell in cells]
    return [money(one[0]) if one else Decimal(0) for cell, one in found if one or cell == "none"]


def paper_text(pdf: bytes) -> str:
    """All that is printed, without spaces: long amounts are broken over lines."""
    text = "".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages)
    return re.sub(r"\s", "", text)


def printed(text: str, label: str) -> Decimal:
    """The amount that is printed right behind a label."""
    found = re.search(re.escape(re.sub(r"\s", "", label)) + r"(-?)€([\d,]+\.\d+)", text)
    assert found is not None, f"{label!r} with an amount is not printed"
    return Decimal(found[1] + found[2].replace(",", ""))


def table_of(text: str) -> list[dict[str, str]]:
    """The rows of a CSV file by their column names."""
    return list(csv.DictReader(io.StringIO(text)))
