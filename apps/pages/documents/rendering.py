"""Renders documents as HTML. Raw HTML in a document is shown as text."""

from __future__ import annotations

import html
import posixpath
import re
from functools import cache
from itertools import count
from typing import Any

import markdown
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify

from apps.pages.copying import copy
from apps.pages.documents.contents import Document

SECTIONS_FEW = 5  # up to here the table of contents has room for two levels


@cache
def as_html(document: Document) -> tuple[SafeString, list[tuple[str, str, bool]]]:
    """Return a document's HTML, and the headings as (anchor, text, whether the heading is a subheading)."""
    converter = markdown.Markdown(extensions=["tables", "fenced_code", "toc", "sane_lists"], output_format="html")
    converter.preprocessors.deregister("html_block")
    converter.inlinePatterns.deregister("html")
    body = converter.convert(document.text.partition("\n")[2] if document.text.startswith("# ") else document.text)
    tokens: list[dict[str, Any]] = getattr(converter, "toc_tokens", [])
    headings = []
    for token in tokens:
        headings.append((token["id"], html.unescape(token["name"]), False))
        if len(tokens) <= SECTIONS_FEW:
            headings += [(part["id"], html.unescape(part["name"]), True) for part in token["children"]]
    body = _copyable(
        _table_anchors(_wrapped_tables(_plain_alignment(_images(_links(body, document.name), document.name))))
    )
    return mark_safe(body), headings  # noqa: S308 - our own files


def _links(body: str, name: str) -> str:
    def page(match: re.Match[str]) -> str:
        target, text = match[1], match[2]
        if re.match(r"[a-z]+:|/|#", target):
            return match[0]
        path, _, fragment = target.partition("#")
        if not path.endswith(".md"):
            shown = _address(name, path).removeprefix("/docs/").removeprefix("/")
            return text if shown in text else f"{text} (<code>{shown}</code>)"
        return f'<a href="{_address(name, path).removesuffix(".md")}{"#" if fragment else ""}{fragment}">{text}</a>'

    return re.sub(r'<a href="([^"]+)">(.*?)</a>', page, body, flags=re.DOTALL)


def _images(body: str, name: str) -> str:
    return re.sub(r'src="(?!/|https?:)([^"]+)"', lambda match: f'src="{_address(name, match[1])}"', body)


def _address(name: str, target: str) -> str:
    return posixpath.normpath(posixpath.join("/docs", posixpath.dirname(name), target))


def _copyable(body: str) -> str:
    numbers = count(1)

    def card(match: re.Match[str]) -> str:
        code = html.unescape(match[2]).rstrip("\n")
        opened = f'<div class="code-card"><pre tabindex="0" role="region" aria-label="Code {next(numbers)}">'
        return f"{opened}<code{match[1]}>{match[2]}</code></pre>{copy(code, 'Copy the code')}</div>"

    return re.sub(r"<pre><code([^>]*)>(.*?)</code></pre>", card, body, flags=re.DOTALL)


def _plain_alignment(body: str) -> str:
    # The content security policy forbids style attributes.
    return re.sub(r' style="text-align: (\w+);"', r' class="align-\1"', body)


def _wrapped_tables(body: str) -> str:
    # Screen readers list the scrolling boxes by name, so every box has its own name.
    numbers = count(1)

    def box(_: re.Match[str]) -> str:
        name = f"Table {next(numbers)}"
        return f'<div class="table-scroll" tabindex="0" role="region" aria-label="{name}"><table class="table">'

    return re.sub("<table>", box, body).replace("</table>", "</table></div>")


def _table_anchors(body: str) -> str:
    # The anchors let the `?` next to a figure link to a definition.
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
