"""Search in everything that a person may open: their organisation's objects, the documents, and the pages themselves."""

from apps.pages.search.everything import Group, Hit, everything_search
from apps.pages.search.words import Query

__all__ = ["Group", "Hit", "Query", "everything_search"]
