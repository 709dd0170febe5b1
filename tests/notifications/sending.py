"""Deliveries made here and now, one after another, by the steps that the workers take."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from apps.notifications.webhooks.delivering import deliveries_offer, delivery_send

ROUNDS = 100


def send_due(*, now: datetime) -> int:
    """Send all that is due at `now`; returns how many attempts were made."""
    made = 0

    def send(delivery_id: UUID, attempt: int) -> None:
        nonlocal made
        made += 1
        delivery_send(delivery_id=delivery_id, attempt=attempt, clock=lambda: now)

    for _ in range(ROUNDS):
        if not deliveries_offer(now=now, send=send):
            return made
    raise AssertionError("what was sent is offered again and again")
