"""Excerpts of an invoice document, selected in the database. A page shows only a few of the usage rows."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from django.db import connection

from apps.accounts.problems import Problem
from apps.invoicing.models import Invoice, KeptDraft

LINES_SHOWN = 15  # lines of a page
ROWS_EACH = 5  # usage rows of a line

Stored = Invoice | KeptDraft

# `|| '{}'` makes a copy that is unpacked once; otherwise each part would unpack the document again.
_EXCERPT = """
WITH whole AS MATERIALIZED (SELECT document || '{}' AS document FROM {table} WHERE id = %(of)s),
lines AS MATERIALIZED (
    SELECT line, place FROM whole, jsonb_array_elements(document -> 'lines') WITH ORDINALITY AS one (line, place)
),
shown AS (
    SELECT place, line - 'usage' || jsonb_build_object(
        'usage', jsonb_path_query_array(line -> 'usage', '$[0 to $last]', jsonb_build_object('last', %(rows)s - 1)),
        'more', greatest(jsonb_array_length(line -> 'usage') - %(rows)s, 0) + coalesce((line ->> 'more')::int, 0)
    ) AS line
    FROM lines WHERE place >= %(first)s AND place < %(first)s + %(lines)s
)
SELECT
    (SELECT document - 'lines' - 'quoted_against_actual' FROM whole),
    (SELECT coalesce(jsonb_agg(line ORDER BY place), '[]') FROM shown),
    (
        SELECT coalesce(jsonb_agg(one ORDER BY place), '[]')
        FROM whole, jsonb_array_elements(document -> 'quoted_against_actual') WITH ORDINALITY AS two (one, place)
        WHERE one -> 'contract' IN (SELECT line -> 'contract' FROM shown)
    ),
    (SELECT coalesce(jsonb_agg(DISTINCT line -> 'rating' -> 'book_version'), '[]') FROM lines),
    (SELECT count(*) FROM lines)
"""

_TEXT = "SELECT document::text FROM {table} WHERE id = %(of)s"


class Excerpt(NamedTuple):
    """An excerpt of the document: the lines of one page with their first usage rows, and the comparisons of their
    contracts.

    `total` is the number of lines in the document. `books` lists the price book versions of all lines.
    """

    document: dict[str, Any]
    first: int
    total: int
    books: list[int]

    @property
    def next(self) -> int | None:
        """The number of the first line on the next page; None on the last page."""
        return self.first + LINES_SHOWN if self.first + LINES_SHOWN <= self.total else None

    @property
    def previous(self) -> int | None:
        """The number of the first line on the previous page; None on the first page."""
        return max(1, self.first - LINES_SHOWN) if self.first > 1 else None

    @property
    def last(self) -> int:
        return min(self.total, self.first + LINES_SHOWN - 1)


def first_line(text: str | None) -> int:
    """Return the line number given in the URL; 1 if the number is missing or invalid."""
    return int(text) if text and text.isascii() and text.isdigit() and 0 < len(text) < 7 and int(text) else 1


def stored_excerpt(stored: Stored, *, first: int) -> Excerpt:
    """Return the excerpt of a stored document that starts at line `first`. Lines are numbered from 1."""
    *parts, count = _fetch(_EXCERPT, stored, first=first, lines=LINES_SHOWN, rows=ROWS_EACH)
    head, lines, compared, books = (json.loads(part) for part in parts)  # the driver returns jsonb as text
    return Excerpt({**head, "lines": lines, "quoted_against_actual": compared}, first, count, books)


def document_excerpt(document: dict[str, Any], *, first: int) -> Excerpt:
    """Return the excerpt that starts at line `first` of a document in memory."""
    shown = document["lines"][first - 1 : first - 1 + LINES_SHOWN]
    lines = [
        {
            **line,
            "usage": line["usage"][:ROWS_EACH],
            "more": line.get("more", 0) + max(len(line["usage"]) - ROWS_EACH, 0),
        }
        for line in shown
    ]
    contracts = {line["contract"] for line in lines}
    compared = [one for one in document["quoted_against_actual"] if one["contract"] in contracts]
    books = sorted({line["rating"]["book_version"] for line in document["lines"]})
    return Excerpt(
        {**document, "lines": lines, "quoted_against_actual": compared}, first, len(document["lines"]), books
    )


def document_text(stored: Stored) -> str:
    """Return the complete document as JSON text."""
    return str(_fetch(_TEXT, stored)[0])


def _fetch(statement: str, stored: Stored, **values: Any) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(statement.replace("{table}", stored._meta.db_table), {"of": stored.pk, **values})
        row: tuple[Any, ...] | None = cursor.fetchone()
    if row is None or row[0] is None:  # issuing an invoice deletes the stored draft
        raise Problem(404, "Not found", "This draft has been invoiced. Reload the page.", kind="not-found")
    return row
