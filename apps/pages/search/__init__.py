"""Searches the organisation's objects, the documents and the pages."""

from apps.pages.search.everything import Group, Hit, everything_search
from apps.pages.search.words import Query

__all__ = ["Group", "Hit", "Query", "everything_search"]
