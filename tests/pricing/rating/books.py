"""The book that the product ships with, and how to change one thing in it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from apps.pricing.rating import PriceBookDocument, book_from_json

SHIPPED = Path(__file__).parents[3] / "apps" / "pricing" / "books" / "book-1.json"


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(SHIPPED.read_text())
    return document


def document(change: Callable[[dict[str, Any]], object] | None = None) -> dict[str, Any]:
    """A fresh copy of the shipped document, changed in place by `change`."""
    fresh = copy.deepcopy(_document())
    if change is not None:
        change(fresh)
    return fresh


def book(change: Callable[[dict[str, Any]], object] | None = None) -> PriceBookDocument:
    """The shipped book, parsed, with a change."""
    return book_from_json(document(change))
