"""Records usage permanently, and posts the price against the hold."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from apps.accounts.failpoints import failpoint
from apps.accounts.problems import Problem
from apps.ledger.models import AccountKind, HoldShare, HoldState, Transaction, UsageRow
from apps.ledger.posting import chain_lock, transaction_new
from apps.ledger.services.rows import rows_write
from apps.ledger.usage import Usage, digest_and_leaves, stamp
from apps.pricing.rating import decimal_text, exact_sum
from apps.pricing.rating.decimals import subtract


@dataclass
class _Held:
    id: UUID
    contract_id: UUID
    amount: Decimal
    posted: Decimal
    currency: str
    state: str
    is_divided: bool  # it has shares of projects


@dataclass(frozen=True)
class Posted:
    """The result of a batch: the transaction, and the numbers of new and repeated rows.

    The transaction is None if every row was already recorded.
    """

    transaction: Transaction | None
    created: int
    repeated: int


@transaction.atomic
def usage_post(usage: Usage, *, now: datetime) -> tuple[UsageRow, bool]:
    """Record the usage of a lease, and post the price against the hold. Return (row, whether the row is new).

    Safe to repeat with the same key and content. Raises Problem (409) if the content differs, or if the price exceeds
    the remainder of the hold.
    """
    posted = _post([usage], now)
    if posted.transaction is None:
        known = UsageRow.objects.get(organisation_id=usage.organisation_id, idempotency_key=usage.idempotency_key)
        return known, False
    return UsageRow(**usage.columns(), created_at=now, transaction=posted.transaction), True


@transaction.atomic
def usage_post_batch(usages: Sequence[Usage], *, now: datetime) -> Posted:
    """Record usage of one organisation in one currency. Usage that is already recorded is skipped.

    Raises Problem (409) and records nothing if a key has conflicting content or an amount exceeds the remainder of a
    hold.
    """
    return _post(usages, now)


def _post(usages: Sequence[Usage], now: datetime) -> Posted:
    if not usages:
        return Posted(None, 0, 0)
    organisation_id, currency = usages[0].organisation_id, usages[0].rating.currency
    if any((one.organisation_id, one.rating.currency) != (organisation_id, currency) for one in usages):
        raise ValueError("a batch is of one organisation and one currency")
    asked = _by_key(usages)
    # Locks in the one order: holds by contract, then the chain.
    holds = _holds_lock(organisation_id, {one.contract_id for one in asked.values()})
    chain = chain_lock(organisation_id)
    fresh = _fresh(organisation_id, asked)
    if not fresh:
        return Posted(None, 0, len(usages))
    _holds_consume(holds, fresh, currency, now)
    failpoint("usage.held")
    first = fresh[0]
    digests = [(one.idempotency_key, one.digest) for one in fresh]
    is_alone = len(fresh) == 1
    digest, leaves = digest_and_leaves(digests)
    told = {"hold": str(holds[first.contract_id].id)} if is_alone else {"leaves": leaves}
    posted = transaction_new(
        organisation_id=organisation_id,
        kind="usage",
        idempotency_key=f"usage:{first.idempotency_key}" if is_alone else f"usage.rows:{digest}",
        subject=_subject(fresh),
        currency=currency,
        amounts=_usage_entries(fresh),
        detail={"rows": digest, "count": len(fresh), **told},
        now=now,
        chain=chain,
    )
    rows_write(fresh, posted.id, now)
    return Posted(posted, len(fresh), len(usages) - len(fresh))


def _by_key(usages: Iterable[Usage]) -> dict[str, Usage]:
    asked: dict[str, Usage] = {}
    for usage in usages:
        first = asked.setdefault(usage.idempotency_key, usage)
        # What is equal has one digest; most repetitions are, and need none computed.
        if first is not usage and first != usage and first.digest != usage.digest:
            raise _conflict(usage)
    return asked


_KNOWN = """
SELECT idempotency_key, payload_digest FROM ledger_usagerow
WHERE organisation_id = %s AND idempotency_key = ANY(%s) ORDER BY idempotency_key
"""


def _fresh(organisation_id: UUID, asked: Mapping[str, Usage]) -> list[Usage]:
    with connection.cursor() as cursor:
        cursor.execute(_KNOWN, [organisation_id, list(asked)])
        known = dict(cursor.fetchall())
    for key, digest in known.items():
        if asked[key].digest != digest:
            raise _conflict(asked[key])
    return [usage for key, usage in asked.items() if key not in known]


def _conflict(usage: Usage) -> Problem:
    detail = f"The usage {usage.idempotency_key!r} was already recorded with different content."
    return Problem(
        409, "Usage conflict", detail, kind="usage-conflict", errors=[{"idempotency_key": usage.idempotency_key}]
    )


_LOCKED = """
SELECT id, contract_id, amount, posted, currency, state,
    EXISTS (SELECT FROM ledger_holdshare AS share WHERE share.hold_id = hold.id)
FROM ledger_hold AS hold WHERE organisation_id = %s AND contract_id = ANY(%s) ORDER BY contract_id FOR UPDATE OF hold
"""


def _holds_lock(organisation_id: UUID, contracts: set[UUID]) -> dict[UUID, _Held]:
    with connection.cursor() as cursor:
        cursor.execute(_LOCKED, [organisation_id, list(contracts)])
        holds = {row[1]: _Held(*row) for row in cursor.fetchall()}
    for contract_id in sorted(contracts - holds.keys()):
        raise Problem(
            409,
            "Nothing is held",
            f"Contract {contract_id} has no hold, so nothing can be charged to it.",
            kind="hold-missing",
        )
    return holds


_CONSUMED = """
UPDATE ledger_hold AS hold SET posted = given.posted, state = given.state,
    closed_at = CASE WHEN given.state = 'pending' THEN NULL ELSE %s END
FROM unnest(%s::uuid[], %s::numeric[], %s::text[]) AS given (id, posted, state) WHERE hold.id = given.id
"""


def _holds_consume(holds: Mapping[UUID, _Held], fresh: Sequence[Usage], currency: str, now: datetime) -> None:
    used: defaultdict[UUID, list[Decimal]] = defaultdict(list)
    for usage in fresh:
        used[usage.contract_id].append(usage.rating.amount)
    changed = []
    for contract_id, amounts in sorted(used.items()):
        hold, amount = holds[contract_id], exact_sum(amounts)
        left = subtract(hold.amount, hold.posted) if hold.state == HoldState.PENDING else Decimal(0)
        if currency != hold.currency or amount > left:
            raise _too_much(hold, left, amount, currency)
        hold.posted = exact_sum([hold.posted, amount])
        if hold.posted == hold.amount:
            hold.state = HoldState.POSTED.value
        changed.append(hold)
    values: list[Any] = [
        now,
        [one.id for one in changed],
        [one.posted for one in changed],
        [one.state for one in changed],
    ]
    with connection.cursor() as cursor:
        cursor.execute(_CONSUMED, values)
    _shares_consume(holds, fresh)


def _shares_consume(holds: Mapping[UUID, _Held], fresh: Sequence[Usage]) -> None:
    # Charges that belong to no project, such as a contract's minimum, are limited only by the hold.
    if not any(hold.is_divided for hold in holds.values()):
        return
    shares: defaultdict[UUID, dict[UUID, HoldShare]] = defaultdict(dict)
    for share in HoldShare.objects.filter(hold__in=[hold.id for hold in holds.values()]):
        shares[share.hold_id][share.project_id] = share
    changed: dict[int, HoldShare] = {}
    for usage in fresh:
        hold = holds[usage.contract_id]
        if not shares[hold.id] or usage.project_id is None:
            continue
        drawn = shares[hold.id].get(usage.project_id)
        left = subtract(drawn.amount, drawn.posted) if drawn else Decimal(0)
        if drawn is None or usage.rating.amount > left:
            raise _too_much(hold, left, usage.rating.amount, hold.currency, " for this project")
        drawn.posted = exact_sum([drawn.posted, usage.rating.amount])
        changed[drawn.id] = drawn
    if changed:
        HoldShare.objects.bulk_update(changed.values(), ["posted"])


def _too_much(hold: _Held, left: Decimal, amount: Decimal, currency: str, whose: str = "") -> Problem:
    return Problem(
        409,
        "More than the held amount",
        f"Contract {hold.contract_id} has {decimal_text(left)} {hold.currency} left on hold{whose}; "
        f"{decimal_text(amount)} {currency} cannot be charged to it.",
        kind="hold-exceeded",
    )


def _subject(fresh: Sequence[Usage]) -> str:
    contracts = {usage.contract_id for usage in fresh}
    return f"contract {fresh[0].contract_id}" if len(contracts) == 1 else f"{len(contracts)} contracts"


def _usage_entries(fresh: Iterable[Usage]) -> dict[AccountKind, Decimal]:
    parts: defaultdict[AccountKind, list[Decimal]] = defaultdict(list)
    for usage in fresh:
        parts[AccountKind.BREAKAGE if usage.rating.unused else AccountKind.REVENUE].append(usage.rating.amount)
    income = {kind: exact_sum(amounts) for kind, amounts in parts.items()}
    amount = exact_sum(income.values())
    return {
        AccountKind.WALLET: amount,
        AccountKind.HELD: amount.copy_negate(),
        AccountKind.ACCRUED: amount,
        **{kind: part.copy_negate() for kind, part in income.items()},
    }


def detail_of(row: UsageRow) -> dict[str, Any]:
    """Return a usage row as a JSON-compatible dictionary."""
    return {
        "id": str(row.id),
        "contract": str(row.contract_id),
        "lease": str(row.lease_id) if row.lease_id else None,
        "model": row.model_name,
        "project": str(row.project_id) if row.project_id else None,
        "token": str(row.token_id) if row.token_id else None,
        "class": row.klass,
        "program_digest": row.program_digest,
        "executions": row.quantity,
        "operations": int(row.operations),
        "cycles": int(row.cycles),
        "billed_operations": int(row.billed_operations),
        "amount": decimal_text(row.amount),
        "currency": row.currency,
        "occurred_from": stamp(row.occurred_from),
        "occurred_to": stamp(row.occurred_to),
        "rating": row.rating,
    }
