"""Documents API operations that return a file."""

from __future__ import annotations

from typing import Any


def download_described(*media_types: str) -> dict[str, Any]:
    """Return the OpenAPI fragment that lists the media types of an operation's file."""
    content = {name: {"schema": {"type": "string", "format": "binary"}} for name in media_types}
    return {"responses": {200: {"description": "The file", "content": content}}}
