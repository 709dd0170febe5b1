"""Derives ids from content, so that replaying the same history gives the same ids and hashes."""

from __future__ import annotations

import hashlib
from uuid import UUID, uuid5

# What RFC 9562 writes over a hash to make it a UUID of version 5.
_KEPT = ~(0xF000 << 64 | 0xC000 << 48)
_VERSION = 0x5000 << 64 | 0x8000 << 48


def identity(organisation_id: UUID, what: str, key: str) -> UUID:
    """Return the id of an object of the kind `what` (such as "hold") with this idempotency key."""
    return uuid5(organisation_id, f"{what}:{key}")


def identity_bytes(organisation: bytes, what: str, key: str) -> bytes:
    """Return the 16 bytes of `identity`, without the cost of a UUID object."""
    digest = hashlib.sha1(organisation + f"{what}:{key}".encode(), usedforsecurity=False).digest()
    return (int.from_bytes(digest[:16], "big") & _KEPT | _VERSION).to_bytes(16, "big")
