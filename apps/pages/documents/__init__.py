"""Lists, renders and searches the Markdown files under docs/."""

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
