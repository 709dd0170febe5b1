"""Cursor pagination of the API: `@paginate(Cursor, ordering=("-id",))` below the router's decorator."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import DataError, transaction
from ninja.pagination import CursorPagination

from apps.accounts.problems import Problem


class Cursor(CursorPagination):
    """ninja's cursor, which a client may send back changed: what it then cannot mean is a 422, not a defect."""

    def paginate_queryset(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with transaction.atomic():
                return super().paginate_queryset(*args, **kwargs)
        except (ValidationError, DataError, ValueError, OverflowError):
            raise Problem(422, "Unknown cursor", "Use the cursor of an earlier answer, unchanged, or none.") from None
