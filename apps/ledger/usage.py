"""What was used, as the ledger records it: plain data, and the digest that tells a repetition from a conflict."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from apps.pricing.rating import Rating, digest_of


@dataclass(frozen=True)
class Usage:
    """What a lease (None: a contract's unused rest) used, and its price.

    The rating's executions of the program took `operations` and `cycles` in all, from `occurred_from` to `occurred_to` of
    device time. The key is unique in the organisation for ever.
    """

    organisation_id: UUID
    contract_id: UUID
    lease_id: UUID | None
    idempotency_key: str
    operations: int
    cycles: int
    program_digest: str
    project_id: UUID | None
    model_name: str
    rating: Rating
    occurred_from: datetime
    occurred_to: datetime

    @property
    def digest(self) -> str:
        """SHA-256 over everything that it says."""
        return digest_of(
            {
                "contract": str(self.contract_id), "lease": str(self.lease_id), "quantity": self.rating.executions,
                "operations": self.operations, "cycles": self.cycles, "program": self.program_digest,
                "project": str(self.project_id), "model": self.model_name, "rating": self.rating.to_json(),
                "from": stamp(self.occurred_from), "to": stamp(self.occurred_to),
            }
        )  # fmt: skip

    def columns(self) -> dict[str, Any]:
        """The columns of its row."""
        return {
            "organisation_id": self.organisation_id,
            "contract_id": self.contract_id,
            "lease_id": self.lease_id,
            "idempotency_key": self.idempotency_key,
            "payload_digest": self.digest,
            "quantity": self.rating.executions,
            "operations": self.operations,
            "cycles": self.cycles,
            "billed_operations": self.rating.billed_operations,
            "program_digest": self.program_digest,
            "project_id": self.project_id,
            "model_name": self.model_name,
            "klass": self.rating.terms.klass,
            "rating": self.rating.to_json(),
            "amount": self.rating.amount,
            "currency": self.rating.currency,
            "occurred_from": self.occurred_from,
            "occurred_to": self.occurred_to,
        }


def stamp(instant: datetime) -> str:
    """An instant as the ledger writes it: UTC, to the microsecond."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds")
