"""Migrations in less time: Django makes the fields of models anew for most operations, and asks each how it was made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from django.db.models import Field


def _clone(field: Field[Any, Any]) -> Field[Any, Any]:
    """`Field.clone`, which asks once: a field of a migration's state never changes, only copies of it do."""
    made_of = field.__dict__.get("_made_of")
    if made_of is None:
        _, _, arguments, options = field.deconstruct()
        made_of = field.__dict__["_made_of"] = (arguments, options)
    arguments, options = made_of
    return type(field)(*arguments, **options)


@contextmanager
def fields_remembered() -> Iterator[None]:
    """A quarter of the time of migrations is saved."""
    with patch.object(Field, "clone", _clone):
        yield
