"""Request bodies that reject unknown field names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from ninja import Schema
from pydantic import ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

SHOWN = 60  # characters of a name that a refusal repeats


class RequestBody(Schema):
    """The base class of request bodies and their nested objects.

    An unknown field name causes a 422 that suggests the nearest known name.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _known(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values  # read from an object, or not a body at all, which another check reports
        known = [field.alias or name for name, field in cls.model_fields.items()]
        faults = [_fault(name, known) for name in unknown_names(values, known)]
        if faults:
            raise ValidationError.from_exception_data(cls.__name__, faults)
        return values


def unknown_names(given: Iterable[Any], known: Iterable[str]) -> list[str]:
    """Return the unknown names in order, truncated for display."""
    allowed = set(known)
    return [str(name)[:SHOWN] for name in given if name not in allowed]


def unknown_said(name: str, known: Iterable[str], *, what: str = "field") -> str:
    """Return an error message that suggests the nearest known name or lists all known names."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    if near:
        return f"unknown {what} {name}; did you mean {near[0]}?"
    return f"unknown {what} {name}; known: {', '.join(names)}" if names else f"unknown {what} {name}; none are accepted"


def _fault(name: str, known: list[str]) -> InitErrorDetails:
    said = PydanticCustomError("unknown_field", "{said}", {"said": unknown_said(name, known)})
    return InitErrorDetails(type=said, loc=(name,), input=None)
