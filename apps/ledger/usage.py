"""Usage as the ledger records it, with digests."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from json.encoder import encode_basestring as _quoted
from typing import Any
from uuid import UUID

from apps.ledger.identity import identity
from apps.pricing.rating import Rating


@dataclass(frozen=True)
class Usage:
    """The rated usage of a lease or, if `lease_id` is None, the unused volume of a contract.

    `operations` and `cycles` are totals over all executions. `occurred_from` and `occurred_to` are the start and the
    end of the device time. `token_id` is the API token that requested the work.
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
    token_id: UUID | None = None

    @cached_property
    def digest(self) -> str:
        # Must equal digest_of(payload_of(self.columns())). The serialised rating is reused because thousands of rows
        # may share one rating.
        token = "" if self.token_id is None else f',"token":"{self.token_id}"'
        text = (
            f'{{"contract":"{self.contract_id}","cycles":{self.cycles},"from":"{stamp(self.occurred_from)}",'
            f'"lease":"{self.lease_id}","model":{_quoted(self.model_name)},'
            f'"operations":{self.operations},"program":"{self.program_digest}","project":"{self.project_id}",'
            f'"quantity":{self.rating.executions},"rating":{self.rating.text},"to":"{stamp(self.occurred_to)}"{token}}}'
        )
        return hashlib.sha256(text.encode()).hexdigest()

    def columns(self) -> dict[str, Any]:
        """Return the columns of the usage row, except `created_at` and the transaction."""
        return {
            "id": identity(self.organisation_id, "usage", self.idempotency_key),
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
            "token_id": self.token_id,
            "model_name": self.model_name,
            "klass": self.rating.terms.klass,
            "rating": self.rating.to_json(),
            "unused": self.rating.unused,
            "amount": self.rating.amount,
            "currency": self.rating.currency,
            "occurred_from": self.occurred_from,
            "occurred_to": self.occurred_to,
        }


def payload_of(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the content that a usage row's digest covers."""
    told = {
        "contract": str(columns["contract_id"]),
        "lease": str(columns["lease_id"]),
        "quantity": int(columns["quantity"]),
        "operations": int(columns["operations"]),
        "cycles": int(columns["cycles"]),
        "program": columns["program_digest"],
        "project": str(columns["project_id"]),
        "model": columns["model_name"],
        "rating": columns["rating"],
        "from": stamp(columns["occurred_from"]),
        "to": stamp(columns["occurred_to"]),
    }
    return told if columns["token_id"] is None else {**told, "token": str(columns["token_id"])}


def rows_digest(rows: Iterable[tuple[str, str]]) -> str:
    """Return the SHA-256 digest of the sorted lines "<key> <payload digest>"."""
    return hashlib.sha256(b"".join(_lines(rows))).hexdigest()


def leaf_of(key: str, digest: str) -> str:
    """Return the SHA-256 digest of the line "<key> <payload digest>"."""
    return rows_digest([(key, digest)])


def digest_and_leaves(rows: Iterable[tuple[str, str]]) -> tuple[str, str]:
    """Return the digest of the rows, and the base64 text of all leaves (32 bytes each, sorted by key)."""
    lines = _lines(rows)
    leaves = b"".join([hashlib.sha256(line).digest() for line in lines])
    return hashlib.sha256(b"".join(lines)).hexdigest(), base64.b64encode(leaves).decode()


def _lines(rows: Iterable[tuple[str, str]]) -> list[bytes]:
    return [f"{key} {digest}\n".encode() for key, digest in sorted(rows)]


def leaves_of(text: str) -> list[str]:
    """Decode a base64 text of leaves. Return the leaves in hexadecimal."""
    packed = base64.b64decode(text).hex()
    return [packed[at : at + 64] for at in range(0, len(packed), 64)]


def stamp(instant: datetime) -> str:
    """Format a time as ISO 8601 in UTC, to the microsecond."""
    return (instant if instant.tzinfo is UTC else instant.astimezone(UTC)).isoformat("T", "microseconds")
