"""Definitions of terms, read from docs/reference/glossary.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from django.utils.text import slugify

GLOSSARY = Path(__file__).resolve().parents[2] / "docs" / "reference" / "glossary.md"
_HEAD = {"word", "---"}


@dataclass(frozen=True)
class Definition:
    """A term with its anchor in the glossary and its meaning in plain text."""

    name: str
    slug: str
    text: str


@lru_cache(maxsize=1)
def _terms() -> dict[str, Definition]:
    found: dict[str, Definition] = {}
    table = GLOSSARY.read_text(encoding="utf-8").partition("\n## ")[0]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) < 2 or cells[0] in _HEAD:
            continue
        plain = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", cells[1]).replace("`", "").replace("*", "")
        found[slugify(cells[0])] = Definition(cells[0], slugify(cells[0]), plain)
    return found


def find(term: str) -> Definition | None:
    """Return the definition of a term, found by name or slug; None if the glossary does not contain the term."""
    return _terms().get(slugify(term))


def all_terms() -> list[Definition]:
    """Return every definition, in the order of the glossary."""
    return list(_terms().values())
