"""A field for documents that are written once and read unchanged."""

from __future__ import annotations

from typing import Any

from django.db import models


class DocumentField(models.JSONField):
    """JSON stored as its original text: the database checks that it is valid JSON but does not parse it into parts.

    A usage row costs a third of the work that `jsonb` needs, and the text stays the one that its digest covers.
    Values that queries need have their own columns.
    """

    def db_type(self, connection: Any) -> str:
        """The column's type."""
        return "json"

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """The document; the driver has already parsed it."""
        return super().from_db_value(value, expression, connection) if isinstance(value, str) else value
