"""A contract's hold and usage without the rooms above."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

from apps.accounts.models import Organisation
from apps.ledger.models import Hold, UsageRow
from apps.ledger.services import hold_place, usage_post
from apps.ledger.usage import Usage
from apps.pricing.rating import Counts, Rating, Terms, rate
from tests.pricing.rating.books import book

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
COUNTS = Counts(operations=704_123_456_789, cycles=5_000)
TERMS = Terms("lpu", "float32", "batch", "year")


def rating(executions: int = 1) -> Rating:
    """So many executions of the program of this file."""
    return rate(book=book(), counts=COUNTS, executions=executions, terms=TERMS)


def held(
    organisation: Organisation, *, executions: int = 10, contract_id: UUID | None = None, now: datetime = NOW
) -> Hold:
    """A hold for so many executions."""
    contract_id = contract_id or uuid4()
    amount = rating(executions).amount
    return hold_place(
        organisation_id=organisation.id,
        contract_id=contract_id,
        amount=amount,
        currency="EUR",
        idempotency_key=f"contract:{contract_id}",
        now=now,
    )


def usage(hold: Hold, executions: int = 1, *, key: str | None = None, **changes: Any) -> Usage:
    """Usage of so many executions under a hold."""
    priced = rating(executions)
    given: dict[str, Any] = {
        "organisation_id": hold.organisation_id,
        "contract_id": hold.contract_id,
        "lease_id": None,
        "idempotency_key": key or f"lease:{uuid4()}",
        "operations": priced.counted_operations,
        "cycles": COUNTS.cycles * executions,
        "program_digest": "ab" * 32,
        "project_id": None,
        "model_name": "squeezenet",
        "rating": priced,
        "occurred_from": NOW,
        "occurred_to": NOW + timedelta(seconds=1),
    }
    return Usage(**{**given, **changes})


def used(hold: Hold, executions: int = 1, *, key: str | None = None, **changes: Any) -> tuple[UsageRow, bool]:
    """That usage, posted."""
    now = changes.pop("now", NOW)
    return usage_post(usage(hold, executions, key=key, **changes), now=now)


def balance(balances: dict[tuple[str, str], Decimal], kind: str) -> Decimal:
    """One account's balance; an account without entries has 0."""
    return balances.get((kind, "EUR"), Decimal(0))
