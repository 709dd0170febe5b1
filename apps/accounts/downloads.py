"""How an operation that answers with a file says so: `openapi_extra=download_described("text/csv")`."""

from __future__ import annotations

from typing import Any


def download_described(media_type: str) -> dict[str, Any]:
    """The part of an operation's document that names the type of the file it answers with."""
    content = {media_type: {"schema": {"type": "string", "format": "binary"}}}
    return {"responses": {200: {"description": "The file", "content": content}}}
