"""Two-phase holds: the maximum cost is set aside, usage is posted, and the remainder is released."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.ledger.identity import identity
from apps.ledger.models import AccountKind, Cap, Hold, HoldShare, HoldState
from apps.ledger.posting import transaction_post
from apps.ledger.services.caps import cap_check
from apps.pricing.rating import exact_sum
from apps.pricing.rating.decimals import subtract

HOLD_GRACE = timedelta(days=7)  # after a contract's end: what is still in flight has that long to be posted


@transaction.atomic
def hold_place(
    *,
    organisation_id: UUID,
    contract_id: UUID,
    amount: Decimal,
    currency: str,
    idempotency_key: str,
    now: datetime,
    project_id: UUID | None = None,
    shares: Mapping[UUID, Decimal] | None = None,
    token_id: UUID | None = None,
    expires_at: datetime | None = None,
) -> Hold:
    """Set aside the maximum cost of a contract. Safe to repeat with the same key and content. Raises CapReached.

    The amount belongs to `project_id`, or to several projects: `shares` maps projects to amounts. The remainder is
    released at `expires_at`.
    """
    # Holds of one organisation are placed one after another, or two could each see room under the cap.
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation_id)
    return hold_place_locked(
        organisation_id=organisation_id,
        contract_id=contract_id,
        amount=amount,
        currency=currency,
        idempotency_key=idempotency_key,
        now=now,
        project_id=project_id,
        shares=shares,
        token_id=token_id,
        expires_at=expires_at,
    )


def hold_place_locked(
    *,
    organisation_id: UUID,
    contract_id: UUID,
    amount: Decimal,
    currency: str,
    idempotency_key: str,
    now: datetime,
    project_id: UUID | None = None,
    shares: Mapping[UUID, Decimal] | None = None,
    token_id: UUID | None = None,
    expires_at: datetime | None = None,
    caps: Sequence[Cap] | None = None,
) -> Hold:
    """Do the same as `hold_place`. The caller must hold the organisation's lock."""
    parts = _parts(amount, project_id, shares)
    known = Hold.objects.filter(organisation_id=organisation_id, idempotency_key=idempotency_key).first()
    if known is not None:
        stands_for = (known.contract_id, known.amount, known.currency, known.token_id, known.expires_at)
        if stands_for != (contract_id, amount, currency, token_id, expires_at) or _shares_of(known) != parts:
            raise Problem(
                409,
                "Key used twice",
                f"The key {idempotency_key!r} was already used for another hold.",
                kind="idempotency-conflict",
            )
        return known
    cap_check(
        organisation_id=organisation_id,
        amount=amount,
        currency=currency,
        now=now,
        shares=parts,
        token_id=token_id,
        caps=caps,
    )
    hold = Hold.objects.create(
        id=identity(organisation_id, "hold", idempotency_key),
        organisation_id=organisation_id,
        contract_id=contract_id,
        amount=amount,
        currency=currency,
        idempotency_key=idempotency_key,
        token_id=token_id,
        created_at=now,
        expires_at=expires_at,
    )
    HoldShare.objects.bulk_create(HoldShare(hold=hold, project_id=key, amount=part) for key, part in parts.items())
    _move(hold, "place", amount, now)
    return hold


def _parts(amount: Decimal, project_id: UUID | None, shares: Mapping[UUID, Decimal] | None) -> dict[UUID, Decimal]:
    if shares:
        if project_id is not None or exact_sum(shares.values()) > amount:
            raise ValueError(f"shares {dict(shares)} of a hold must sum to at most {amount}")
        return {key: part for key, part in sorted(shares.items()) if part}
    return {} if project_id is None else {project_id: amount}


def _shares_of(hold: Hold) -> dict[UUID, Decimal]:
    return dict(hold.shares.order_by("project_id").values_list("project_id", "amount"))


@transaction.atomic
def hold_release(*, contract_id: UUID, now: datetime) -> Hold:
    """Release the remainder of a contract's hold. Safe to repeat."""
    hold = Hold.objects.select_for_update().get(contract_id=contract_id)
    return _close(hold, HoldState.RELEASED, now)


def holds_expire_due(*, now: datetime, limit: int = 200) -> int:
    """Release the remainder of expired holds. Return the number of holds released."""
    due = Hold.objects.filter(state=HoldState.PENDING, expires_at__lte=now).order_by("expires_at")
    return sum(_expire(hold_id, now) for hold_id in list(due.values_list("pk", flat=True)[:limit]))


@transaction.atomic
def _expire(hold_id: UUID, now: datetime) -> bool:
    hold = Hold.objects.select_for_update(skip_locked=True).filter(pk=hold_id, state=HoldState.PENDING).first()
    if hold is None:
        return False
    _close(hold, HoldState.EXPIRED, now)
    return True


def _close(hold: Hold, state: HoldState, now: datetime) -> Hold:
    if hold.state != HoldState.PENDING:
        return hold
    hold.state, hold.closed_at = state, now
    hold.save(update_fields=["state", "closed_at"])
    verb = "release" if state == HoldState.RELEASED else "expire"
    _move(hold, verb, subtract(hold.posted, hold.amount), now)
    return hold


def _move(hold: Hold, verb: str, amount: Decimal, now: datetime) -> None:
    transaction_post(
        organisation_id=hold.organisation_id,
        kind=f"hold.{verb}",
        idempotency_key=f"hold:{hold.id}:{verb}",
        subject=f"contract {hold.contract_id}",
        currency=hold.currency,
        amounts={AccountKind.HELD: amount, AccountKind.WALLET: amount.copy_negate()},
        detail={"hold": str(hold.id)},
        now=now,
        is_new=verb == "place",  # the hold was not there a moment ago, and the organisation's lock is held
    )
