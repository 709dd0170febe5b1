"""Reverses ledger transactions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db import transaction

from apps.accounts.problems import Problem
from apps.ledger.models import AccountKind, Transaction
from apps.ledger.posting import entries_of, transaction_post

BOUND = ("hold.", "usage")  # these move with a hold or a usage row, which stay as they are


@transaction.atomic
def transaction_reverse(
    *,
    organisation_id: UUID,
    transaction_id: UUID,
    reason: str,
    now: datetime,
    amounts: Mapping[AccountKind, Decimal] | None = None,
) -> tuple[Transaction, bool]:
    """Reverse a transaction, or only `amounts`. Return (reversal, whether the reversal is new). Safe to repeat.

    Raises Problem (409) for a reversal and for postings of holds or usage.
    """
    posted = Transaction.objects.get(organisation_id=organisation_id, pk=transaction_id)
    if posted.kind.startswith(BOUND) or posted.kind.endswith(".reverse"):
        detail = f"A posting of kind {posted.kind} cannot be reversed; correct it with a credit."
        raise Problem(409, "Not reversible", detail, kind="not-reversible")
    entries = entries_of(posted)
    currency = next(iter(entries))[1]
    mirrored = amounts or {AccountKind(kind): amount for (kind, _), amount in entries.items()}
    return transaction_post(
        organisation_id=organisation_id,
        kind=f"{posted.kind}.reverse",
        idempotency_key=f"reverse:{posted.id}",
        subject=posted.subject,
        currency=currency,
        amounts={kind: amount.copy_negate() for kind, amount in mirrored.items()},
        detail={"reverses": str(posted.id), "reason": reason},
        now=now,
    )
