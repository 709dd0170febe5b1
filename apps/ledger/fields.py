"""A field for documents that are written once and read as they are."""

from __future__ import annotations

from typing import Any

from django.db import models


class DocumentField(models.JSONField):
    """JSON kept as the text that it came as: the database checks that it is JSON and does not take it apart.

    Against `jsonb` a row of usage takes a third of the work, and the text stays the one its digest is over. What queries
    ask for has a column of its own.
    """

    def db_type(self, connection: Any) -> str:
        """The column's type."""
        return "json"

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """The document; the driver has read it already."""
        return super().from_db_value(value, expression, connection) if isinstance(value, str) else value
