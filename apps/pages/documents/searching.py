"""Searches the documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify

from apps.pages.documents.contents import Document, plain, sections

GLOSSARY, PROBLEMS = "reference/glossary", "reference/problems"
QUERY_LENGTH, WORDS_MAX = 200, 12
EXCERPT_LENGTH, EXCERPT_BEFORE = 220, 80


@dataclass(frozen=True)
class Hit:
    """A search result: the address, title and heading of a passage, and an excerpt with the words marked."""

    url: str
    title: str
    heading: str
    excerpt: SafeString


class Match(IntEnum):
    """The place where the words were found. A smaller number means a better match."""

    DEFINITION = 0  # the query is a word of the glossary, or a problem code
    TITLE = 1
    HEADING = 2
    TEXT = 3


@dataclass(frozen=True)
class Passage:
    """A section of a document, or a table row in the glossary or the list of problem codes."""

    url: str
    title: str
    heading: str
    text: str
    place: int  # the section of the contents
    is_for_customers: bool
    is_first: bool = False  # the beginning of its document
    is_definition: bool = False


def search(query: str, *, limit: int = 30) -> list[Hit]:
    """Return the passages that contain every word of the query, best match first.

    Only the first 200 characters of the query count.
    """
    words = query[:QUERY_LENGTH].lower().split()[:WORDS_MAX]
    if not words:
        return []
    found = []
    for number, passage in enumerate(_passages()):
        match = _match(passage, words)
        if match is not None:
            often = sum(passage.text.lower().count(word) for word in words)
            found.append(((_rank(match, passage), passage.place, -often, number), passage))
    found.sort(key=lambda row: row[0])
    return [Hit(one.url, one.title, one.heading, _excerpt(one.text, words)) for _, one in found[:limit]]


def _rank(match: Match, passage: Passage) -> int:
    return match if match is Match.DEFINITION or passage.is_for_customers else match + 1


def _match(passage: Passage, words: list[str]) -> Match | None:
    heading, title = passage.heading.lower(), passage.title.lower()
    if passage.is_definition and _singular(" ".join(words)) == _singular(heading):
        return Match.DEFINITION
    if passage.is_first and all(word in title for word in words):
        return Match.TITLE
    if all(word in heading for word in words):
        return Match.HEADING
    whole = f"{title} {heading} {passage.text.lower()}"
    return Match.TEXT if all(word in whole for word in words) else None


def _singular(term: str) -> str:
    # "quotes" must find "quote".
    return re.sub(r"(?<=[a-z]{3})s$", "", re.sub(r"\s*\(.*\)$", "", term))


@lru_cache(maxsize=1)
def _passages() -> tuple[Passage, ...]:
    return tuple(
        passage
        for place, section in enumerate(sections())
        for document in section.documents
        for passage in _passages_of(document, place, is_for_customers=section.audience == "customers")
    )


def _passages_of(document: Document, place: int, *, is_for_customers: bool) -> Iterator[Passage]:
    for number, (heading, lines) in enumerate(_parts(document)):
        is_first = number == 0
        if document.name == PROBLEMS or (document.name == GLOSSARY and is_first):
            for line in lines:
                yield from _definition(document, line, place)
            lines = [line for line in lines if not line.startswith("|")]
        text = plain("\n".join(lines))
        if is_first or text:
            url = f"/docs/{document.name}" + ("" if is_first else f"#{slugify(heading)}")
            yield Passage(url, document.title, heading, text, place, is_for_customers, is_first=is_first)


def _parts(document: Document) -> list[tuple[str, list[str]]]:
    parts: list[tuple[str, list[str]]] = [(document.title, [])]
    for line in _without_code_headings(document.text):
        if line.startswith(("## ", "### ")):
            parts.append((plain(line), []))
        elif not line.startswith("# "):
            parts[-1][1].append(line)
    return parts


def _definition(document: Document, line: str, place: int) -> Iterator[Passage]:
    cells = [plain(cell) for cell in line.strip().strip("|").split("|")] if line.startswith("| ") else [""]
    if cells[0] in {"word", "code", ""} or len(cells) < 2:
        return
    url, text = f"/problems/{cells[0]}", " ".join(cells[2:])
    if document.name == GLOSSARY:
        url, text = f"/docs/{GLOSSARY}#{slugify(cells[0])}", cells[1]
    yield Passage(url, document.title, cells[0], text, place, is_for_customers=True, is_definition=True)


def _without_code_headings(text: str) -> Iterator[str]:
    # Code blocks are indented so that a comment is not mistaken for a heading.
    is_code = False
    for line in text.splitlines():
        if line.startswith("```"):
            is_code = not is_code
        yield f" {line}" if is_code else line


def _excerpt(text: str, words: list[str]) -> SafeString:
    first = min((at for at in (text.lower().find(word) for word in words) if at >= 0), default=0)
    start = text.rfind(" ", 0, max(1, first - EXCERPT_BEFORE)) + 1
    end = len(text)
    if start + EXCERPT_LENGTH < end:
        end = max(first, text.rfind(" ", 0, start + EXCERPT_LENGTH))
    piece = ("... " if start else "") + text[start:end] + (" ..." if end < len(text) else "")
    parts = re.split(f"({'|'.join(map(re.escape, words))})", piece, flags=re.IGNORECASE)
    marked = (f"<mark>{escape(part)}</mark>" if number % 2 else escape(part) for number, part in enumerate(parts))
    return mark_safe("".join(marked))  # noqa: S308 - escaped
