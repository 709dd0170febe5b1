"""Signs messages with HMAC-SHA256 over id, timestamp and body (Standard Webhooks, version 1)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets

PREFIX = "whsec_"


def secret_make() -> str:
    """Return a new secret of 32 random bytes."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def headers_of(secret: str, *, message_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the three headers that identify and sign a message. `timestamp` is a Unix time in seconds."""
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": str(timestamp), "webhook-signature": f"v1,{signature}"}
