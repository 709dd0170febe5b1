"""Parses and checks a delivered event."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from apps.accounts.problems import Problem
from apps.collection.catalogue import EVENTS

ID_MAX = 80  # characters of an id or a type, as in the table


def event_read(body: bytes) -> dict[str, Any]:
    """Return the event in the body of a delivery. The caller must have verified the signature.

    Raises Problem(400) if the body is not a valid event.
    """
    try:
        event = json.loads(body, parse_constant=_no_constant)
        event_check(event)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        detail = f"The body is signed but is not an event: {error}"[:300]
        raise Problem(400, "Not an event", detail, kind="stripe-event") from error
    return dict(event)


def event_check(event: Any) -> None:
    """Raise ValueError, TypeError, KeyError or OverflowError if the event cannot be stored or handled."""
    if event["object"] != "event":
        raise ValueError("`object` is not `event`")
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
    """Return the JSON value without characters that PostgreSQL cannot store: NUL and unpaired surrogates."""
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {storable(name): storable(one) for name, one in value.items()}
    return [storable(one) for one in value] if isinstance(value, list) else value
