"""A field for documents that are written once and never changed."""

from __future__ import annotations

from typing import Any

from django.db import models


class DocumentField(models.JSONField):
    """JSON stored as its original text (PostgreSQL's `json` type). The database validates the text but does not convert
    it.

    Writing a usage row takes a third of the work that `jsonb` would need, and the digest covers the stored text
    exactly. Values that queries need have their own columns.
    """

    def db_type(self, connection: Any) -> str:
        """Return the type of the database column."""
        return "json"

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Return the document, which the driver has already parsed."""
        return super().from_db_value(value, expression, connection) if isinstance(value, str) else value
