"""Writes ledger transactions, which are balanced, idempotent by key, and chained."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection
from django.db import transaction as database

from apps.accounts.failpoints import failpoint
from apps.accounts.problems import Problem
from apps.ledger.identity import identity
from apps.ledger.models import Account, AccountKind, Chain, Entry, Transaction
from apps.pricing.rating import decimal_text, digest_of, exact_sum

_HEAD = "SELECT organisation_id, sequence, hash FROM ledger_chain WHERE organisation_id = %s FOR UPDATE"
_FIRST = (
    "INSERT INTO ledger_chain (organisation_id, sequence, hash) VALUES (%s, 0, repeat('0', 64)) ON CONFLICT DO NOTHING"
)


def chain_lock(organisation_id: UUID) -> Chain:
    """Lock and return the head of the organisation's chain. A missing head is created."""
    with connection.cursor() as cursor:
        cursor.execute(_HEAD, [organisation_id])
        row = cursor.fetchone()
        if row is None:
            cursor.execute(_FIRST, [organisation_id])
            cursor.execute(_HEAD, [organisation_id])
            row = cursor.fetchone()
    return Chain(*row)


def transaction_post(
    *,
    organisation_id: UUID,
    kind: str,
    idempotency_key: str,
    subject: str,
    currency: str,
    amounts: Mapping[AccountKind, Decimal],
    detail: dict[str, Any],
    now: datetime,
    chain: Chain | None = None,
    is_new: bool = False,
) -> tuple[Transaction, bool]:
    """Post entries that sum to zero. Return (transaction, whether the transaction is new).

    If the key was used before, the existing transaction is returned. Raises Problem (409) if the existing content
    differs, and ValueError if the entries do not balance. Pass `chain` only if the chain is locked, and `is_new` only
    if the key is unused.
    """
    if not connection.in_atomic_block:
        raise database.TransactionManagementError("a posting belongs to the transaction of what caused it")
    moved = {account: amount for account, amount in amounts.items() if amount != 0}
    if exact_sum(moved.values()) != 0 or len(moved) < 2:
        raise ValueError(f"{kind} {subject} does not balance: {moved}")
    chain = chain or chain_lock(organisation_id)
    content = _content(kind, idempotency_key, subject, currency, moved, detail)
    known = None if is_new else _known(organisation_id, idempotency_key, content)
    if known is not None:
        return known, False
    posted = transaction_new(
        organisation_id=organisation_id,
        kind=kind,
        idempotency_key=idempotency_key,
        subject=subject,
        currency=currency,
        amounts=moved,
        detail=detail,
        now=now,
        chain=chain,
    )
    return posted, True


def transaction_new(
    *,
    organisation_id: UUID,
    kind: str,
    idempotency_key: str,
    subject: str,
    currency: str,
    amounts: Mapping[AccountKind, Decimal],
    detail: dict[str, Any],
    now: datetime,
    chain: Chain,
) -> Transaction:
    """Post balanced, non-zero entries under an unused key. The caller must hold the chain's lock."""
    content = _content(kind, idempotency_key, subject, currency, amounts, detail)
    posted = Transaction(
        id=identity(organisation_id, "transaction", idempotency_key),
        organisation_id=organisation_id,
        sequence=chain.sequence + 1,
        kind=kind,
        idempotency_key=idempotency_key,
        subject=subject,
        detail=detail,
        at=now,
        previous_hash=chain.hash,
        hash=hash_of(chain.hash, organisation_id, chain.sequence + 1, now, content),
    )
    _insert(posted)
    failpoint("ledger.transaction")
    _chain(chain, posted, currency, amounts)
    return posted


_POSTED = """
INSERT INTO ledger_transaction
    (id, organisation_id, sequence, kind, idempotency_key, subject, detail, at, previous_hash, hash)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


def _insert(posted: Transaction) -> None:
    # Model.save takes four times as long as this SQL.
    values: list[Any] = [
        posted.id,
        posted.organisation_id,
        posted.sequence,
        posted.kind,
        posted.idempotency_key,
        posted.subject,
        json.dumps(posted.detail),
        posted.at,
        posted.previous_hash,
        posted.hash,
    ]
    with connection.cursor() as cursor:
        cursor.execute(_POSTED, values)
    posted._state.adding, posted._state.db = False, connection.alias


def _known(organisation_id: UUID, idempotency_key: str, content: dict[str, Any]) -> Transaction | None:
    known = Transaction.objects.filter(organisation_id=organisation_id, idempotency_key=idempotency_key).first()
    if known is not None and _content_of(known) != content:
        detail = f"The key {idempotency_key!r} was already used for another posting."
        raise Problem(409, "Key used twice", detail, kind="idempotency-conflict")
    return known


_TOLD = """
WITH head AS (UPDATE ledger_chain SET sequence = %s, hash = %s WHERE organisation_id = %s)
INSERT INTO ledger_outboxrow (organisation_id, topic, payload, created_at) VALUES (%s, %s, %s, %s)
"""


def _chain(chain: Chain, posted: Transaction, currency: str, moved: Mapping[AccountKind, Decimal]) -> None:
    organisation_id = posted.organisation_id
    _entries_write(posted, moved, currency)
    failpoint("ledger.entries")
    chain.sequence, chain.hash = posted.sequence, posted.hash
    payload = {
        "transaction": str(posted.id),
        "sequence": posted.sequence,
        "subject": posted.subject,
        **({"rows": posted.detail["count"]} if "count" in posted.detail else {}),
    }
    values: list[Any] = [
        chain.sequence,
        chain.hash,
        organisation_id,
        organisation_id,
        f"ledger.{posted.kind}",
        json.dumps(payload),
        posted.at,
    ]
    with connection.cursor() as cursor:
        cursor.execute(_TOLD, values)
    failpoint("ledger.outbox")


def hash_of(previous: str, organisation_id: UUID, sequence: int, at: datetime, content: dict[str, Any]) -> str:
    """Return the SHA-256 hash of the previous hash and a transaction's content."""
    stamp = at.astimezone(UTC).isoformat(timespec="microseconds")
    return digest_of(
        {"previous": previous, "organisation": str(organisation_id), "sequence": sequence, "at": stamp, **content}
    )


def hash_again(posted: Transaction, previous: str, sequence: int) -> str:
    """Return the hash that a stored transaction must have at this position in the chain."""
    return hash_of(previous, posted.organisation_id, sequence, posted.at, _content_of(posted))


def _content(
    kind: str, key: str, subject: str, currency: str, amounts: Mapping[AccountKind, Decimal], detail: dict[str, Any]
) -> dict[str, Any]:
    return {
        "kind": kind,
        "key": key,
        "subject": subject,
        "detail": detail,
        "entries": {f"{account.value} {currency}": decimal_text(amount) for account, amount in amounts.items()},
    }


def _content_of(posted: Transaction) -> dict[str, Any]:
    return {
        "kind": posted.kind,
        "key": posted.idempotency_key,
        "subject": posted.subject,
        "detail": posted.detail,
        "entries": entries_text(posted),
    }


def entries_text(posted: Transaction) -> dict[str, str]:
    """Return a transaction's entries as they are hashed: a mapping of "<account> <currency>" to the amount."""
    return {f"{kind} {currency}": decimal_text(amount) for (kind, currency), amount in entries_of(posted).items()}


def entries_of(posted: Transaction) -> dict[tuple[str, str], Decimal]:
    """Return the amounts of a transaction by (account kind, currency)."""
    return {(one.account.kind, one.account.currency): one.amount for one in posted.entries.all()}


_ENTRIES = """
INSERT INTO ledger_entry (transaction_id, account_id, amount, number, balance)
SELECT %s, account.id, given.amount, 0, 0
FROM unnest(%s::text[], %s::numeric[]) AS given (kind, amount) JOIN ledger_account AS account USING (kind)
WHERE account.organisation_id = %s AND account.currency = %s ORDER BY account.kind
"""


def _entries_write(posted: Transaction, moved: Mapping[AccountKind, Decimal], currency: str) -> None:
    # The caller must hold the chain's lock.
    if _entries_insert(posted, moved, currency) == len(moved):
        return
    there = set(Entry.objects.filter(transaction=posted).values_list("account__kind", flat=True))
    rest = {kind: amount for kind, amount in moved.items() if kind not in there}
    Account.objects.bulk_create(
        Account(organisation_id=posted.organisation_id, kind=kind, currency=currency) for kind in sorted(rest)
    )
    _entries_insert(posted, rest, currency)


def _entries_insert(posted: Transaction, moved: Mapping[AccountKind, Decimal], currency: str) -> int:
    values: list[Any] = [
        posted.id,
        [str(kind) for kind in moved],
        list(moved.values()),
        posted.organisation_id,
        currency,
    ]
    with connection.cursor() as cursor:
        cursor.execute(_ENTRIES, values)
        return int(cursor.rowcount)
