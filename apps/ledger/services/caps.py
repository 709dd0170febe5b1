"""Spend caps: of an organisation, of one of its projects, of one of its keys. Kept by holds, before the fact."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.ledger.models import Cap
from apps.ledger.selectors import spending
from apps.pricing.rating import amount_text, decimal_text, exact_sum
from apps.pricing.rating.decimals import subtract


class CapReached(Problem):
    """A limit that the organisation set itself does not allow this; `errors` names it for programs."""

    def __init__(self, *, cap: Cap, committed: Decimal, amount: Decimal) -> None:
        free = max(subtract(cap.amount, committed), Decimal(0))
        asked, most, left = (f"{amount_text(value, exponent=2)} {cap.currency}" for value in (amount, cap.amount, free))
        super().__init__(
            409,
            "Spend cap reached",
            f"This would set aside {asked}, but of this month's cap of {most} {_whose(cap)}only {left} is left. "
            "Ask for less, or let an owner raise the cap under Billing.",
            kind="spend-cap",
            errors=[{"scope": cap.scope, "cap": decimal_text(cap.amount), "left": decimal_text(free)}],
        )


def _whose(cap: Cap) -> str:
    if cap.project is not None:
        return f"for project {cap.project.name} "
    return "" if cap.token is None else f"for API token {cap.token.name} "


@transaction.atomic
def cap_set(
    *,
    organisation: Organisation,
    amount: Decimal | None,
    currency: str,
    now: datetime,
    project_id: UUID | None = None,
    token_id: UUID | None = None,
) -> Cap | None:
    """Set or (None) remove a monthly cap: the organisation's, or that of one project or one API token of it.

    Contracts already accepted stay as they are. Raises ValueError when both a project and a token are given.
    """
    if project_id is not None and token_id is not None:
        raise ValueError("a cap is a project's or a token's, not both")
    scope: dict[str, Any] = {"project_id": project_id, "token_id": token_id}
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    if amount is None:
        Cap.objects.filter(organisation=organisation, **scope).delete()
        return None
    cap, _ = Cap.objects.update_or_create(
        organisation=organisation,
        **scope,
        defaults={"amount": amount, "currency": currency, "set_at": now},
    )
    return cap


def cap_check(
    *,
    organisation_id: UUID,
    amount: Decimal,
    currency: str,
    now: datetime,
    shares: Mapping[UUID, Decimal] | None = None,
    token_id: UUID | None = None,
) -> None:
    """Raises CapReached when `amount` more (of which `shares` by project, by the key `token_id`) would go above a cap of
    this month. Call it under the organisation's lock."""
    asked_by_project = shares or {}
    caps = Cap.objects.filter(organisation_id=organisation_id).select_related("project", "token")
    for cap in sorted(caps, key=lambda one: (one.scope, str(one.id))):
        asked = _asked(cap, amount, asked_by_project, token_id)
        if asked is None:
            continue
        if cap.currency != currency:
            detail = f"The spend cap is in {cap.currency}, this contract is in {currency}."
            raise Problem(409, "Another currency", detail)
        spent = spending(
            organisation_id=organisation_id,
            currency=currency,
            now=now,
            project_id=cap.project_id,
            token_id=cap.token_id,
        )
        if exact_sum([spent.committed, asked]) > cap.amount:
            raise CapReached(cap=cap, committed=spent.committed, amount=asked)


def _asked(cap: Cap, amount: Decimal, shares: Mapping[UUID, Decimal], token_id: UUID | None) -> Decimal | None:
    """What of the amount the cap is about; None when nothing."""
    if cap.project_id is not None:
        return shares.get(cap.project_id)
    if cap.token_id is not None:
        return amount if cap.token_id == token_id else None
    return amount
