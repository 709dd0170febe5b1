"""The Markdown files under docs/: listed in the order of docs/contents.toml, rendered, and searched."""

from apps.pages.documents.contents import (
    Document,
    Section,
    documents,
    moved_to,
    neighbours,
    picture,
    section_of,
    sections,
)
from apps.pages.documents.rendering import as_html
from apps.pages.documents.searching import Hit, search

__all__ = [
    "Document",
    "Hit",
    "Section",
    "as_html",
    "documents",
    "moved_to",
    "neighbours",
    "picture",
    "search",
    "section_of",
    "sections",
]
