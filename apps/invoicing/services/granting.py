"""Grants credits, expires them and ends them early."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Q, Sum, Value
from django.db.models.functions import Coalesce

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.currencies import places_of
from apps.dispatch.models import Lease, LeaseState
from apps.figures import money_format
from apps.invoicing.adjustments import Adjustment
from apps.invoicing.drafting import credits_waiting
from apps.invoicing.models import CreditEnd, CreditGrant, CreditUse, GrantKind, Invoice
from apps.invoicing.models.invoices import amount_field
from apps.invoicing.outbox import outbox_write
from apps.ledger.models import AccountKind
from apps.ledger.posting import chain_lock, transaction_post
from apps.pricing.rating import Terms, decimal_text, rate
from apps.pricing.rating.decimals import subtract
from apps.pricing.selectors import book_of_digest
from apps.sales.selectors import terms_line
from apps.sales.snapshots import snapshot_of_line


@transaction.atomic
def grant_create(
    *,
    organisation: Organisation,
    amount: Decimal,
    currency: str,
    kind: GrantKind = GrantKind.CREDIT,
    reason: str,
    expires_at: datetime | None,
    idempotency_key: str,
    basis: dict[str, Any] | None = None,
    actor: User | None,
    now: datetime,
) -> CreditGrant:
    """Grant a credit. If the key was used before, return the existing grant.

    Raises Problem (409) if the existing grant has another amount. The CREDIT_LIMIT setting limits the amount that a
    person can grant.
    """
    if amount <= 0 or not reason.strip() or (expires_at is not None and expires_at <= now):
        raise Problem(
            422,
            "Not granted",
            "A credit needs an amount above 0, a reason, and an expiry in the future.",
            kind="credit",
        )
    most = Decimal(settings.CREDIT_LIMIT).scaleb(-places_of(currency))
    if kind == GrantKind.CREDIT and amount > most:
        limit = money_format(most, currency)
        detail = f"A single credit can be at most {limit} (the setting CREDIT_LIMIT). Grant a smaller credit, or several credits."
        raise Problem(422, "Credit too large", detail, kind="credit")
    chain_lock(organisation.id)
    known = CreditGrant.objects.filter(organisation=organisation, idempotency_key=idempotency_key).first()
    if known is not None:
        if (known.amount, known.currency) != (amount, currency):
            raise Problem(
                409, "Granted already", f"The key {idempotency_key!r} belongs to another credit.", kind="credit-granted"
            )
        return known
    grant = CreditGrant.objects.create(
        organisation=organisation,
        kind=kind,
        amount=amount,
        currency=currency,
        reason=reason.strip()[:300],
        basis=basis or {},
        idempotency_key=idempotency_key,
        granted_at=now,
        granted_by=actor,
        expires_at=expires_at,
    )
    _post(grant, amount, key="grant", now=now)
    _event_write(grant, "granted", amount, grant.reason, action="credit.grant", actor=actor, now=now)
    return grant


def _event_write(
    grant: CreditGrant, what: str, amount: Decimal, reason: str, *, action: str, actor: User | None, now: datetime
) -> None:
    facts = {"amount": decimal_text(amount), "currency": grant.currency, "reason": reason}
    payload = {"credit": str(grant.id), **facts}
    outbox_write(organisation_id=grant.organisation_id, topic=f"credit.{what}", payload=payload, now=now)
    audit_record(
        action=action, subject=f"credit {grant.id}", actor=actor, organisation=grant.organisation, now=now, detail=facts
    )


def grant_uses_store(invoice: Invoice, adjustments: tuple[Adjustment, ...], *, now: datetime) -> None:
    """Store how much of each grant a new invoice used."""
    CreditUse.objects.bulk_create(
        CreditUse(grant=one.grant, invoice=invoice, section=section, amount=amount, at=now)
        for one in adjustments
        if one.grant is not None
        for section, amount in one.uses
    )


@transaction.atomic
def grant_end(*, grant_id: UUID, reason: str, actor: User | None, now: datetime) -> CreditGrant:
    """End a credit early. Credit needed for earlier, uninvoiced usage is kept; the rest is reversed.

    Raises CreditGrant.DoesNotExist, and Problem if the credit has already ended.
    """
    if not reason.strip():
        raise Problem(422, "Reason missing", "Enter a reason for ending the credit.", kind="credit")
    chain_lock(CreditGrant.objects.values_list("organisation_id", flat=True).get(pk=grant_id))
    grant = CreditGrant.objects.select_related("organisation", "end").get(pk=grant_id)
    if grant.ended is not None:
        raise Problem(409, "Ended already", f"This credit has already ended: {grant.ended.reason}", kind="credit")
    if grant.expires_at is not None and grant.expires_at <= now:
        raise Problem(409, "Expired", "This credit has already expired.", kind="credit")
    end = CreditEnd(grant=grant, reason=reason.strip()[:300], ended_at=now, ended_by=actor)
    end.save(force_insert=True)
    over = _unused_rest(grant, now=now)
    if over > 0:
        _rest_withdraw(grant, over, key="end", now=now)
    _event_write(grant, "ended", over, end.reason, action="credit.end", actor=actor, now=now)
    return grant


def grants_expire(*, now: datetime) -> int:
    """Withdraw the unused remainder of grants that expired or were ended. Return the number of grants.

    Credit needed for earlier, uninvoiced usage is kept.
    """
    used = Coalesce(Sum("uses__amount"), Value(Decimal(0)), output_field=amount_field())
    past = CreditGrant.objects.filter(Q(expires_at__lte=now) | Q(end__ended_at__lte=now))
    over = past.select_related("organisation").annotate(used=used)
    return sum(_expire(grant, now=now) for grant in over.exclude(used=F("amount")).order_by("granted_at", "id"))


@transaction.atomic
def _expire(grant: CreditGrant, *, now: datetime) -> bool:
    chain_lock(grant.organisation_id)
    over = _unused_rest(grant, now=now)
    if over > 0:
        _rest_withdraw(grant, over, key=f"expire:{grant.uses.count() + 1}", now=now)
    return over > 0


def _unused_rest(grant: CreditGrant, *, now: datetime) -> Decimal:
    # The caller must have locked the chain.
    left = subtract(grant.amount, grant.uses.aggregate(sum=Sum("amount"))["sum"] or Decimal(0))
    if left <= 0:
        return Decimal(0)
    waiting = credits_waiting(grant.organisation, currency=grant.currency, until=now)
    return subtract(left, waiting.get(str(grant.id), Decimal(0)))


def _rest_withdraw(grant: CreditGrant, left: Decimal, *, key: str, now: datetime) -> None:
    CreditUse.objects.create(grant=grant, amount=left, at=now)
    _post(grant, left.copy_negate(), key=key, now=now)


def _post(grant: CreditGrant, amount: Decimal, *, key: str, now: datetime) -> None:
    transaction_post(
        organisation_id=grant.organisation_id,
        kind="credit",
        idempotency_key=f"credit:{grant.id}:{key}",
        subject=f"credit {grant.id}",
        currency=grant.currency,
        amounts={AccountKind.PROMOTION: amount, AccountKind.CREDIT: amount.copy_negate()},
        detail={"reason": grant.reason},
        now=now,
    )


def guarantees_credit_due(*, now: datetime, limit: int = 200) -> int:
    """Grant a credit for each job block that failed because of us. Return the number of blocks credited."""
    known = set(CreditGrant.objects.filter(kind=GrantKind.GUARANTEE).values_list("idempotency_key", flat=True))
    missed = Lease.objects.filter(state=LeaseState.FAILED, is_missed=True)
    related = missed.select_related("stage__job__contract__organisation", "stage__program")
    due = (lease for lease in related.order_by("finished_at", "id") if _key(lease) not in known)
    credited = (lease for lease in due if guarantee_credit(lease, now=now))  # leases without a credit stay due
    return sum(1 for _ in islice(credited, limit))


def _key(lease: Lease) -> str:
    return f"missed:{lease.pk}"


def guarantee_credit(lease: Lease, *, now: datetime) -> bool:
    """Grant a credit for one failed block. Return False if no credit was granted."""
    contract = lease.stage.job.contract
    line = terms_line(contract, lease.stage.program.digest)
    stated = line["rating"]
    rating = rate(
        book=book_of_digest(stated["book_digest"]),
        counts=snapshot_of_line(line).counts,  # of the program: the line of a quota counts the whole quota
        executions=lease.count,
        terms=Terms.from_json(stated["terms"]),
        missed=True,
    )
    if not rating.amount:
        return False
    model = line["program"]["model"]
    try:
        grant_create(
            organisation=contract.organisation,
            amount=rating.amount,
            currency=rating.currency,
            kind=GrantKind.GUARANTEE,
            reason=f"{lease.count:,} executions of {model} missed their place in the timetable through a failure here.",
            basis={"lease": str(lease.pk), "contract": str(contract.pk), "rating": rating.to_json()},
            expires_at=None,
            idempotency_key=_key(lease),
            actor=None,
            now=now,
        )
    except IntegrityError:  # another process was faster
        return False
    return True
