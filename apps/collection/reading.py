"""Reads a delivered event: whether it is one at all, and in a form that the database can keep."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from apps.accounts.problems import Problem
from apps.collection.catalogue import EVENTS

ID_MAX = 80  # characters of an id or a type, as the table keeps them


def event_read(body: bytes) -> dict[str, Any]:
    """The event in a body whose signature was right. Raises Problem (400) for anything that is no event: text that is not
    JSON, a list, a field of another type, a known type without the object that it is about."""
    try:
        event = json.loads(body, parse_constant=_no_constant)
        event_check(event)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        detail = f"The body is signed, and is not an event: {error}"[:300]
        raise Problem(400, "Not an event", detail, kind="stripe-event") from error
    return dict(event)


def event_check(event: Any) -> None:
    """Raises ValueError, TypeError or KeyError for what cannot be kept as an event, or not handled."""
    if event["object"] != "event":
        raise ValueError("it is another object")
    for name in ("id", "type"):
        _text(event, name)
    if not isinstance(event["created"], int) or isinstance(event["created"], bool):
        raise TypeError("`created` is not a whole number")
    datetime.fromtimestamp(event["created"], UTC)
    about, look = event["data"]["object"], EVENTS.get(event["type"])
    if not isinstance(about, dict):
        raise TypeError("`data.object` is not an object")
    if look is not None and about.get(look.field) is not None:
        _text(about, look.field)
    elif look is not None and look.field == "id":
        raise KeyError("data.object.id")


def _text(thing: dict[str, Any], name: str) -> None:
    value = thing[name]
    if not isinstance(value, str) or not value or len(value) > ID_MAX or not value.isprintable():
        raise TypeError(f"`{name}` is not an id")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def storable(value: Any) -> Any:
    """The same JSON without what PostgreSQL cannot keep in it: the character NUL, and halves of surrogate pairs."""
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {storable(name): storable(one) for name, one in value.items()}
    return [storable(one) for one in value] if isinstance(value, list) else value
