"""A field for documents that are written once and never changed."""

from __future__ import annotations

from typing import Any

from django.db import models


class DocumentField(models.JSONField):
    """JSON stored as the original text (PostgreSQL's `json` type), so that a digest can cover the exact text."""

    def db_type(self, connection: Any) -> str:
        return "json"

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> Any:
        """Return the document unchanged, because the driver has already parsed the JSON."""
        return super().from_db_value(value, expression, connection) if isinstance(value, str) else value
