"""A field for documents that are written once and read unchanged."""

from __future__ import annotations

from typing import Any

from django.db import models


class DocumentField(models.JSONField):
    """JSON stored as its original text (PostgreSQL's type `json`), which the database validates but does not convert.

    Writing a usage row takes a third of the work that `jsonb` would need, and the text stays exactly what its digest
    covers. Values that queries need have their own columns.
    """

    def db_type(self, connection: Any) -> str:
        """The type of the database column."""
        return "json"

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Return the document, which the driver has already parsed."""
        return super().from_db_value(value, expression, connection) if isinstance(value, str) else value
