"""Cursor pagination of the API: `@paginate(Cursor, ordering=("-id",))` below the router's decorator.

Take `paginate` from here rather than from ninja: ours knows the types of the operation's own parameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from django.core.exceptions import ValidationError
from django.db import DataError, transaction
from ninja.pagination import CursorPagination
from ninja.pagination import paginate as ninja_paginate

from apps.accounts.problems import Problem

F = TypeVar("F", bound=Callable[..., Any])


class Cursor(CursorPagination):
    """ninja's cursor, which a client may send back changed: what it then cannot mean is a 422, not a defect."""

    def paginate_queryset(self, *args: Any, **kwargs: Any) -> Any:
        try:
            with transaction.atomic():
                return super().paginate_queryset(*args, **kwargs)
        except (ValidationError, DataError, ValueError, OverflowError):
            raise Problem(422, "Unknown cursor", "Use the cursor of an earlier answer, unchanged, or none.") from None


def paginate(kind: type[Cursor], *, ordering: tuple[str, ...]) -> Callable[[F], F]:
    """ninja's decorator on an operation whose annotations are text (`from __future__ import annotations`)."""

    def decorate(operation: F) -> F:
        # ninja wraps the operation and then looks its annotations up in its own module, where our types are unknown.
        operation.__signature__ = inspect.signature(operation, eval_str=True)  # type: ignore[attr-defined]
        return cast("F", ninja_paginate(kind, ordering=ordering)(operation))

    return decorate
