"""Documents an operation that returns a file: `openapi_extra=download_described("text/csv")`."""

from __future__ import annotations

from typing import Any


def download_described(*media_types: str) -> dict[str, Any]:
    """Return the part of an operation's OpenAPI document that lists the media types of its file."""
    content = {name: {"schema": {"type": "string", "format": "binary"}} for name in media_types}
    return {"responses": {200: {"description": "The file", "content": content}}}
