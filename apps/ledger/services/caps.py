"""Spend caps of organisations, projects and API tokens, enforced when a hold is placed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.figures import money_exact_format
from apps.ledger.models import Cap
from apps.ledger.selectors import caps_of, spending
from apps.pricing.rating import decimal_text, exact_sum
from apps.pricing.rating.decimals import subtract

CAPS_PAGE = "/portal/caps"


class CapReached(Problem):
    """Raised if a spend cap would be exceeded. `errors` names the cap."""

    def __init__(self, *, cap: Cap, committed: Decimal, amount: Decimal) -> None:
        free = max(subtract(cap.amount, committed), Decimal(0))
        asked, most, left = (money_exact_format(value, cap.currency) for value in (amount, cap.amount, free))
        super().__init__(
            409,
            "Spend cap reached",
            f"This would reserve {asked}, but only {left} of this month's cap of {most} {_whose(cap)}is left. "
            f"Request less. Alternatively, ask an owner or a billing person to raise the cap under Portal, Caps ({CAPS_PAGE}).",
            kind="spend-cap",
            errors=[
                {
                    "scope": cap.scope,
                    "cap": decimal_text(cap.amount),
                    "left": decimal_text(free),
                    "currency": cap.currency,
                }
            ],
        )


class CapMissing(Problem):
    """Raised if there are caps, but none in the currency of the price."""

    def __init__(self, *, caps: Sequence[Cap], currency: str) -> None:
        one, has = caps[0], " and ".join(cap.currency for cap in caps)
        super().__init__(
            409,
            f"No spend cap in {currency}",
            f"The spend cap {_whose(one)}is in {has}, but this work is priced in {currency}. Ask an owner or a billing person "
            f"to set a cap in {currency} or to remove the cap in {has} ({CAPS_PAGE}).",
            kind="spend-cap-currency",
            errors=[
                {"scope": one.scope, "currency": currency, "caps": [cap.currency for cap in caps], "page": CAPS_PAGE}
            ],
        )


def _whose(cap: Cap) -> str:
    if cap.project is not None:
        return f"for project {cap.project.name} "
    return "" if cap.token is None else f"for API token {cap.token.name} "


def cap_in(caps: Mapping[str, Cap], *, currency: str) -> Cap | None:
    """Return the cap in a currency; None if `caps` is empty.

    Raises CapMissing if `caps` has only caps in other currencies.
    """
    if caps and currency not in caps:
        raise CapMissing(caps=list(caps.values()), currency=currency)
    return caps.get(currency)


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
    """Set the monthly cap of the organisation, a project or an API token in one currency. None removes the cap.

    Raises ValueError if both a project and a token are given.
    """
    if project_id is not None and token_id is not None:
        raise ValueError("a cap is a project's or a token's, not both")
    scope: dict[str, Any] = {"project_id": project_id, "token_id": token_id, "currency": currency}
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    if amount is None:
        Cap.objects.filter(organisation=organisation, **scope).delete()
        return None
    cap, _ = Cap.objects.update_or_create(
        organisation=organisation,
        **scope,
        defaults={"amount": amount, "set_at": now},
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
    caps: Sequence[Cap] | None = None,
) -> None:
    """Check that spending another `amount` would not exceed a cap this month.

    The caller must hold the organisation's lock. `shares` divides the amount among projects. Raises CapReached, or
    CapMissing if caps are set only in other currencies.
    """
    every = caps_of(organisation_id) if caps is None else caps
    for (project_id, key_id), rows in groupby(every, lambda cap: (cap.project_id, cap.token_id)):
        asked = _asked(project_id, key_id, amount, shares or {}, token_id)
        if asked is None:
            continue
        cap = cap_in({row.currency: row for row in rows}, currency=currency)
        if cap is None:
            continue
        spent = spending(
            organisation_id=organisation_id,
            currency=currency,
            now=now,
            project_id=cap.project_id,
            token_id=cap.token_id,
        )
        if exact_sum([spent.committed, asked]) > cap.amount:
            raise CapReached(cap=cap, committed=spent.committed, amount=asked)


def _asked(
    project_id: UUID | None, key_id: UUID | None, amount: Decimal, shares: Mapping[UUID, Decimal], token_id: UUID | None
) -> Decimal | None:
    if project_id is not None:
        return shares.get(project_id)
    if key_id is not None:
        return amount if key_id == token_id else None
    return amount
