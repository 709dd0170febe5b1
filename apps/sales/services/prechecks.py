"""Checks before a purchase: the reasons why an offer would be refused now."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.ledger.services import cap_check
from apps.planner.models import Plan
from apps.sales.models import Contract, Quote
from apps.sales.plans import plan_lines_get, plan_until_check
from apps.sales.priced import Priced
from apps.sales.quota_caps import project_cap_check
from apps.sales.services.accepting import project_shares
from apps.sales.services.quoting import Offer, pricing_make, window_check
from apps.sales.services.standing import acceptance_refusals


def offer_refusals(
    *,
    organisation: Organisation,
    offer: Offer,
    amends: Contract | None,
    actor: User | None,
    now: datetime,
    token_id: UUID | None = None,
) -> list[Problem]:
    """Return the reasons why the offer would be refused; empty if there are none.

    Spend caps are not checked for an amendment.
    """
    found = _refusals(organisation, offer.priced, amends, actor, now, token_id)
    try:
        window_check(offer.priced)
    except Problem as refusal:
        found.insert(0, refusal)
    return found


def plan_refusals(*, plan: Plan, actor: User | None, now: datetime, token_id: UUID | None = None) -> list[Problem]:
    """Return the reasons why a quote for the plan's chosen candidate would be refused now.

    The list is empty if no candidate is feasible.
    """
    if plan.chosen is None:
        return []
    organisation = plan.organisation
    try:
        planned = plan_lines_get(organisation=organisation, plan_id=plan.pk, items=None)
        plan_until_check(planned.until, end=None, now=now)
        priced = pricing_make(
            organisation=organisation,
            lines=planned.lines,
            klass=planned.klass,
            pool=planned.pool,
            window=(None, planned.until),
            now=now,
        ).priced
    except Problem as refusal:
        return [refusal]
    return _refusals(organisation, priced, None, actor, now, token_id)


def _refusals(
    organisation: Organisation,
    priced: Priced,
    amends: Contract | None,
    actor: User | None,
    now: datetime,
    token_id: UUID | None,
) -> list[Problem]:
    quote = Quote(
        organisation=organisation,
        pool=priced.pool,
        amends=amends,
        worst=priced.worst,
        currency=priced.book.currency.code,
        document={"device_seconds": str(priced.duration)},  # what the buying limits read
    )
    found = acceptance_refusals(quote, actor=actor, now=now)
    if amends is not None:
        return found
    shares = project_shares(priced) or {}
    try:
        for project_id, share in sorted(shares.items()):
            project_cap_check(
                organisation_id=organisation.pk,
                project_id=project_id,
                amount=share,
                currency=quote.currency,
                now=now,
                only_promised=True,
            )
        cap_check(
            organisation_id=organisation.pk,
            amount=priced.worst,
            currency=quote.currency,
            now=now,
            shares=shares,
            token_id=token_id,
        )
    except Problem as refusal:
        found.append(refusal)
    return found
