"""What changes the ledger. Every function is called inside the transaction of what it records."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.ledger.models import AccountKind, Cap, Hold, HoldState, UsageRow
from apps.ledger.posting import chain_lock, transaction_post
from apps.ledger.selectors import spending
from apps.ledger.usage import Usage, stamp
from apps.pricing.rating import amount_text, decimal_text, exact_sum
from apps.pricing.rating.decimals import subtract


class CapReached(Problem):
    """The organisation's own limit does not allow this."""

    def __init__(self, *, cap: Decimal, committed: Decimal, amount: Decimal, currency: str) -> None:
        free = max(subtract(cap, committed), Decimal(0))
        super().__init__(
            409,
            "Spend cap reached",
            f"This would set aside {amount_text(amount, exponent=2)} {currency}, but of this month's cap of "
            f"{amount_text(cap, exponent=2)} {currency} only {amount_text(free, exponent=2)} {currency} is left. "
            "Ask for less, or let an owner raise the cap under Billing.",
            kind="spend-cap",
        )


@transaction.atomic
def hold_place(
    *,
    organisation_id: UUID,
    contract_id: UUID,
    amount: Decimal,
    currency: str,
    idempotency_key: str,
    now: datetime,
) -> Hold:
    """Set aside the most that a contract may cost. Raises CapReached; the same key and amount again is a no-op."""
    # Holds of one organisation are placed one after another, or two could each see room under the cap.
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation_id)
    known = Hold.objects.filter(organisation_id=organisation_id, idempotency_key=idempotency_key).first()
    if known is not None:
        if (known.contract_id, known.amount, known.currency) != (contract_id, amount, currency):
            raise Problem(409, "Key used twice", f"The key {idempotency_key!r} already stands for another hold.")
        return known
    cap_check(organisation_id=organisation_id, amount=amount, currency=currency, now=now)
    hold = Hold.objects.create(
        organisation_id=organisation_id,
        contract_id=contract_id,
        amount=amount,
        currency=currency,
        idempotency_key=idempotency_key,
        created_at=now,
    )
    transaction_post(
        organisation_id=organisation_id,
        kind="hold.place",
        idempotency_key=f"hold:{hold.id}:place",
        subject=f"contract {contract_id}",
        currency=currency,
        amounts={AccountKind.HELD: amount, AccountKind.WALLET: amount.copy_negate()},
        detail={"hold": str(hold.id)},
        now=now,
    )
    return hold


@transaction.atomic
def hold_release(*, contract_id: UUID, now: datetime) -> Hold:
    """Give back what a contract's hold has left. Safe to repeat."""
    hold = Hold.objects.select_for_update().get(contract_id=contract_id)
    if hold.state != HoldState.PENDING:
        return hold
    rest = subtract(hold.amount, hold.posted)
    hold.state, hold.closed_at = HoldState.RELEASED, now
    hold.save(update_fields=["state", "closed_at"])
    transaction_post(
        organisation_id=hold.organisation_id,
        kind="hold.release",
        idempotency_key=f"hold:{hold.id}:release",
        subject=f"contract {contract_id}",
        currency=hold.currency,
        amounts={AccountKind.WALLET: rest, AccountKind.HELD: rest.copy_negate()},
        detail={"hold": str(hold.id)},
        now=now,
    )
    return hold


@transaction.atomic
def usage_post(usage: Usage, *, now: datetime) -> tuple[UsageRow, bool]:
    """Record what a lease used and post its price against the contract's hold. Returns (row, whether it is new).

    The same key with the same content is a no-op, with another content a conflict (409). An amount above what is held
    is refused: what was not set aside is never charged.
    """
    hold = _hold_lock(usage.organisation_id, usage.contract_id)
    chain_lock(usage.organisation_id)
    known = _usage_known(usage)
    if known is not None:
        return known, False
    _hold_consume(hold, usage.rating.amount, usage.rating.currency, now)
    posted, _ = transaction_post(
        organisation_id=usage.organisation_id,
        kind="usage",
        idempotency_key=f"usage:{usage.idempotency_key}",
        subject=f"contract {usage.contract_id}",
        currency=usage.rating.currency,
        amounts=_usage_entries(usage.rating.amount, unused=usage.rating.unused),
        detail={"usage": usage.digest, "hold": str(hold.id)},
        now=now,
    )
    return UsageRow.objects.create(**usage.columns(), created_at=now, transaction=posted), True


def _usage_known(usage: Usage) -> UsageRow | None:
    """The row that the key stands for already. Raises Problem(409) when that says something else."""
    rows = UsageRow.objects.filter(organisation_id=usage.organisation_id, idempotency_key=usage.idempotency_key)
    known = rows.first()
    if known is not None and known.payload_digest != usage.digest:
        detail = f"The usage {usage.idempotency_key!r} was already recorded with another content."
        raise Problem(409, "Usage conflict", detail, kind="usage-conflict")
    return known


@transaction.atomic
def cap_set(*, organisation: Organisation, amount: Decimal | None, currency: str, now: datetime) -> Cap | None:
    """Set or (None) remove the organisation's monthly cap. Contracts already accepted stay as they are."""
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    if amount is None:
        Cap.objects.filter(organisation=organisation).delete()
        return None
    cap, _ = Cap.objects.update_or_create(
        organisation=organisation, defaults={"amount": amount, "currency": currency, "set_at": now}
    )
    return cap


def cap_check(*, organisation_id: UUID, amount: Decimal, currency: str, now: datetime) -> None:
    """Raises CapReached when `amount` more would go above the organisation's cap for this month."""
    cap = Cap.objects.filter(organisation_id=organisation_id).first()
    if cap is None:
        return
    if cap.currency != currency:
        raise Problem(409, "Another currency", f"The spend cap is in {cap.currency}, this contract is in {currency}.")
    committed = spending(organisation_id=organisation_id, currency=currency, now=now).committed
    if exact_sum([committed, amount]) > cap.amount:
        raise CapReached(cap=cap.amount, committed=committed, amount=amount, currency=currency)


def _hold_lock(organisation_id: UUID, contract_id: UUID) -> Hold:
    hold = Hold.objects.select_for_update().filter(organisation_id=organisation_id, contract_id=contract_id).first()
    if hold is None:
        raise Problem(409, "Nothing is held", f"Contract {contract_id} has no hold, so nothing can be charged to it.")
    return hold


def _hold_consume(hold: Hold, amount: Decimal, currency: str, now: datetime) -> None:
    left = subtract(hold.amount, hold.posted) if hold.state == HoldState.PENDING else Decimal(0)
    if currency != hold.currency or amount > left:
        raise Problem(
            409,
            "More than is held",
            f"Contract {hold.contract_id} has {decimal_text(left)} {hold.currency} left on hold; "
            f"{decimal_text(amount)} {currency} cannot be charged to it.",
            kind="hold-exceeded",
        )
    hold.posted = exact_sum([hold.posted, amount])
    if hold.posted == hold.amount:
        hold.state, hold.closed_at = HoldState.POSTED, now
    hold.save(update_fields=["posted", "state", "closed_at"])


def _usage_entries(amount: Decimal, *, unused: bool) -> dict[AccountKind, Decimal]:
    income = AccountKind.BREAKAGE if unused else AccountKind.REVENUE
    return {
        AccountKind.WALLET: amount,
        AccountKind.HELD: amount.copy_negate(),
        AccountKind.ACCRUED: amount,
        income: amount.copy_negate(),
    }


def detail_of(row: UsageRow) -> dict[str, Any]:
    """A usage row for machines."""
    return {
        "id": str(row.id),
        "contract": str(row.contract_id),
        "lease": str(row.lease_id) if row.lease_id else None,
        "model": row.model_name,
        "project": str(row.project_id) if row.project_id else None,
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
