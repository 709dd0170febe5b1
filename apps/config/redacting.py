"""Removes secrets from the log, such as those in invitation links and share links."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import Any

SHOWN = "[secret]"
# The last part of the addresses that have one, and beyond them whatever looks like one: long, and neither a digest nor an id.
_NAMED = re.compile(r"(/(?:invitations|shared/\w+|share|confirm-email|password/reset/key)/)[^/\s\"'?]+")
_LONG = re.compile(r"(?<![\w-])(?![0-9a-fA-F-]+(?![\w-]))[\w-]{40,}(?![\w-])")
_PATHLIKE = re.compile(r"/[^\s\"']*")


def redacted(text: str) -> str:
    """Return the text with every secret in an address replaced."""
    return _PATHLIKE.sub(lambda found: _LONG.sub(SHOWN, _NAMED.sub(rf"\1{SHOWN}", found[0])), text)


def redact(logger: Any, name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Redact one log event. This function is a structlog processor."""
    for key, value in event.items():
        event[key] = _cleaned(value)
    return event


def _cleaned(value: Any) -> Any:
    if value is None or isinstance(value, int | float):
        return value
    if isinstance(value, dict):
        return {key: _cleaned(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(one) for one in value]
    return redacted(value if isinstance(value, str) else repr(value))
