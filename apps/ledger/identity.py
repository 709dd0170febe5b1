"""Ids that follow from what a row stands for, so that the same history, replayed, has the same ids and hashes."""

from __future__ import annotations

from uuid import UUID, uuid5


def identity(organisation_id: UUID, what: str, key: str) -> UUID:
    """The id of an organisation's `what` (such as "hold") with that idempotency key."""
    return uuid5(organisation_id, f"{what}:{key}")
