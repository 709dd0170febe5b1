"""The Markdown files under docs/: listed, read, searched. They ship with the code, so reading them once is enough."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import markdown
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify

FOLDER = Path(__file__).resolve().parents[2] / "docs"
_SECTIONS = {"": "Read first", "guides": "Guides", "compiler": "The compiler", "adr": "Decision records"}
_FENCE = re.compile(r"```.*?```", re.DOTALL)


@dataclass(frozen=True)
class Document:
    """One file: its address under /docs, its title, its section, its text in Markdown and its first sentence."""

    name: str
    title: str
    section: str
    text: str
    summary: str


@dataclass(frozen=True)
class Hit:
    """One found passage: the address with its anchor, the titles, and the text with the words marked."""

    url: str
    title: str
    heading: str
    excerpt: SafeString


@lru_cache(maxsize=1)
def documents() -> dict[str, Document]:
    """Every document by its address, in reading order: the top folder, then the others by name."""
    files = sorted(FOLDER.rglob("*.md"), key=lambda path: (len(path.relative_to(FOLDER).parts), path.as_posix()))
    found = {}
    for path in files:
        name = path.relative_to(FOLDER).with_suffix("").as_posix()
        found[name] = _read(name, path.read_text(encoding="utf-8"))
    return found


def _read(name: str, text: str) -> Document:
    title = next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), name)
    folder = name.rpartition("/")[0]
    section = _SECTIONS.get(folder, folder.replace("/", ", ").capitalize())
    blocks = (block.strip() for block in _FENCE.sub("", text).split("\n\n"))
    first = next((_plain(block.removeprefix("**Question.** ")) for block in blocks if _is_prose(block)), "")
    summary = first[:180].rsplit(" ", 1)[0] + "..." if len(first) > 180 else first
    return Document(name, title.replace("`", ""), section, text, summary)


def _is_prose(block: str) -> bool:
    """Whether a block says something: no heading, table, list or date; the question of a decision record does."""
    return block.startswith("**Question") or (
        bool(block) and block[0] not in "#|-`>*" and not block.startswith("Date:")
    )


def _plain(text: str) -> str:
    """Markdown without its marks, on one line."""
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^\s*(?:[-*>]|\d+\.) ", "", text, flags=re.MULTILINE)
    text = re.sub(r"[`*]+|(?<!\w)_+|_+(?!\w)", "", text)
    return " ".join(re.sub(r"[|#]+|-{3,}", " ", text).split())


def sections() -> list[tuple[str, list[Document]]]:
    """The documents under their section's name."""
    grouped: dict[str, list[Document]] = {}
    for document in documents().values():
        grouped.setdefault(document.section, []).append(document)
    return list(grouped.items())


def as_html(document: Document) -> tuple[SafeString, list[tuple[str, str]]]:
    """The page and its second-level headings as (anchor, text). The files are ours; raw HTML in them is shown, not obeyed."""
    converter = markdown.Markdown(extensions=["tables", "fenced_code", "toc", "sane_lists"], output_format="html")
    converter.preprocessors.deregister("html_block")
    converter.inlinePatterns.deregister("html")
    body = converter.convert(document.text.partition("\n")[2] if document.text.startswith("# ") else document.text)
    tokens: list[dict[str, str]] = getattr(converter, "toc_tokens", [])
    body = _table_anchors(_wrapped_tables(_plain_alignment(_links(body, document.name))))
    return mark_safe(body), [(token["id"], token["name"]) for token in tokens]  # noqa: S308 - our own files


def _links(body: str, name: str) -> str:
    """Links between the files become links between the pages."""
    folder = Path("/docs") / Path(name).parent

    def page(match: re.Match[str]) -> str:
        target = match[1]
        if re.match(r"[a-z]+:|/|#", target) or ".md" not in target:
            return match[0]
        parts: list[str] = []
        for part in (folder / target.replace(".md", "")).parts:
            parts = parts[:-1] if part == ".." else [*parts, part]
        return f'href="{"/".join(parts).replace("//", "/")}"'

    return re.sub(r'href="([^"]+)"', page, body)


def _plain_alignment(body: str) -> str:
    """Aligned columns by class, since the content policy forbids style attributes."""
    return re.sub(r' style="text-align: (\w+);"', r' class="align-\1"', body)


def _wrapped_tables(body: str) -> str:
    """A wide table scrolls in its own box."""
    opened = '<div class="table-scroll" tabindex="0" role="region" aria-label="Table"><table class="table">'
    return body.replace("<table>", opened).replace("</table>", "</table></div>")


def _table_anchors(body: str) -> str:
    """The first cell of each row can be linked to: the `?` beside a figure opens the glossary at its word."""

    def anchor(match: re.Match[str]) -> str:
        slug = slugify(re.sub(r"<[^>]+>", "", match[1]))
        return f'<tr id="{slug}">\n<td>{match[1]}</td>' if slug else match[0]

    seen: set[str] = set()

    def once(match: re.Match[str]) -> str:
        text = anchor(match)
        slug = slugify(re.sub(r"<[^>]+>", "", match[1]))
        if slug in seen or f'id="{slug}"' in body:
            return match[0]
        seen.add(slug)
        return text

    return re.sub(r"<tr>\s*<td>(.*?)</td>", once, body)


def search(query: str, *, limit: int = 30) -> list[Hit]:
    """Passages that hold every word of `query`; headings and titles count more than text."""
    words = [word for word in query.lower().split() if word]
    if not words:
        return []
    scored: list[tuple[int, int, Hit]] = []
    for document in documents().values():
        for heading, anchor, text in _passages(document):
            low, head = text.lower(), f"{document.title} {heading}".lower()
            if all(word in low or word in head for word in words):
                score = sum(5 for word in words if word in head) + sum(low.count(word) for word in words)
                url = f"/docs/{document.name}{anchor}"
                scored.append((-score, len(scored), Hit(url, document.title, heading, _excerpt(text, words))))
    return [hit for _, _, hit in sorted(scored, key=lambda row: row[:2])[:limit]]


def _passages(document: Document) -> list[tuple[str, str, str]]:
    """(heading, anchor, plain text) of each section of a document; table rows are passages of their own."""
    found: list[tuple[str, str, str]] = []
    heading, anchor = "", ""
    lines: list[str] = []
    for line in document.text.splitlines():
        if line.startswith("#"):
            found.append((heading, anchor, _plain("\n".join(lines))))
            heading = _plain(line)
            anchor = "" if line.startswith("# ") else f"#{slugify(heading)}"
            lines = []
        elif line.startswith("|") and document.name == "glossary":
            cells = line.strip("|").split("|")
            found.append((_plain(cells[0]), f"#{slugify(_plain(cells[0]))}", _plain(" ".join(cells[1:2]))))
        else:
            lines.append(line)
    found.append((heading, anchor, _plain("\n".join(lines))))
    return [passage for passage in found if passage[2]]


def _excerpt(text: str, words: list[str]) -> SafeString:
    """About 220 characters around the first found word, every found word marked."""
    first = min((at for at in (text.lower().find(word) for word in words) if at >= 0), default=0)
    start = text.rfind(" ", 0, max(1, first - 80)) + 1
    end = len(text) if start + 220 >= len(text) else max(first, text.rfind(" ", 0, start + 220))
    piece = ("... " if start else "") + text[start:end] + (" ..." if end < len(text) else "")
    pattern = "|".join(re.escape(escape(word)) for word in words)
    return mark_safe(re.sub(f"({pattern})", r"<mark>\1</mark>", escape(piece), flags=re.IGNORECASE))  # noqa: S308 - escaped
