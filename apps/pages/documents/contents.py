"""The documents in reading order. The files ship with the code, so each file is read only once."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[3] / "docs"
CONTENTS = FOLDER / "contents.toml"
SUMMARY_LENGTH = 130
_FENCE = re.compile(r"```.*?```", re.DOTALL)


@dataclass(frozen=True)
class Document:
    """A document: the address under /docs, title, section, Markdown text and summary."""

    name: str
    title: str
    section: str
    text: str
    summary: str


@dataclass(frozen=True)
class Section:
    """A group of documents for customers, operators or engineers, in reading order."""

    title: str
    audience: str
    text: str
    documents: tuple[Document, ...]


@lru_cache(maxsize=1)
def sections() -> tuple[Section, ...]:
    """Return every section in docs/contents.toml, in the order of the file."""
    return tuple(
        Section(
            row["title"], row["for"], row["text"], tuple(_read(name, row["title"]) for name in _names(row["pages"]))
        )
        for row in _contents()["sections"]
    )


@lru_cache(maxsize=1)
def documents() -> dict[str, Document]:
    """Return the documents by address, in reading order."""
    return {document.name: document for section in sections() for document in section.documents}


def moved_to(name: str) -> str | None:
    """Return the new address of the document that was once at `name`; None if there is no such document."""
    return moved_addresses().get(name)


def moved_addresses() -> dict[str, str]:
    """Return a mapping of old addresses of documents to new addresses."""
    found: dict[str, str] = _contents()["moved"]
    return found


def section_of(document: Document) -> Section:
    """Return the section of a document."""
    return next(section for section in sections() if section.title == document.section)


def picture(name: str) -> Path | None:
    """Return the path of a picture under docs/; None if there is no such picture."""
    return next((path for path in _pictures() if path.relative_to(FOLDER).as_posix() == name), None)


@lru_cache(maxsize=1)
def _pictures() -> tuple[Path, ...]:
    return tuple(path for suffix in ("png", "svg") for path in FOLDER.rglob(f"*.{suffix}"))


def neighbours(document: Document) -> tuple[Document | None, Document | None]:
    """Return the previous and the next document for the same audience."""
    audience = section_of(document).audience
    row = [one for section in sections() if section.audience == audience for one in section.documents]
    place = row.index(document)
    return (row[place - 1] if place else None), (row[place + 1] if place + 1 < len(row) else None)


def plain(text: str) -> str:
    """Return Markdown as plain text on one line. Dots stand between the cells of a table, semicolons between its rows."""
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^\s*(?:[-*>]|\d+\.) ", "", text, flags=re.MULTILINE)
    text = re.sub(r"[`*]+|(?<!\w)_+|_+(?!\w)", "", text)
    text = re.sub(r"^\s*\|[-:| ]+\|\s*$", "", text, flags=re.MULTILINE)  # the line below a table's heads
    text = re.sub(r"^\s*\|(.*?)\s*\|[ \t]*$", r"\1;", text, flags=re.MULTILINE).replace("|", " · ")
    return " ".join(re.sub(r"#+|-{3,}", " ", text).split()).removesuffix(";")


@lru_cache(maxsize=1)
def _contents() -> dict[str, Any]:
    return tomllib.loads(CONTENTS.read_text(encoding="utf-8"))


def _names(pages: list[str]) -> list[str]:
    found = []
    for page in pages:
        paths = sorted(FOLDER.glob(f"{page}.md")) if page.endswith("*") else [FOLDER / f"{page}.md"]
        found += [path.relative_to(FOLDER).with_suffix("").as_posix() for path in paths]
    return found


def _read(name: str, section: str) -> Document:
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    title = next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), name)
    blocks = (block.strip() for block in _FENCE.sub("", text).split("\n\n"))
    first = next((plain(block.removeprefix("**Question.** ")) for block in blocks if _is_prose(block)), "")
    return Document(name, title.replace("`", ""), section, text, _summary(first))


def _summary(paragraph: str) -> str:
    if len(paragraph) <= SUMMARY_LENGTH:
        return paragraph
    end = max(paragraph.rfind(f"{mark} ", 0, SUMMARY_LENGTH) for mark in ".?!")
    return paragraph[: end + 1] if end > 0 else paragraph[:SUMMARY_LENGTH].rsplit(" ", 1)[0] + "..."


def _is_prose(block: str) -> bool:
    return block.startswith("**Question") or (
        bool(block) and block[0] not in "#|-`>*!" and not block.startswith("Date:")
    )
