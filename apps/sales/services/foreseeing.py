"""What would refuse an offer if it were quoted and accepted now, known before anything is made."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.ledger.services import cap_check
from apps.sales.models import Contract, Quote
from apps.sales.quota_caps import project_cap_check
from apps.sales.services.accepting import project_shares
from apps.sales.services.quoting import Offer
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
    """The limits of buying and the spend caps that stand in the way, each with its remedy, by the functions that acceptance
    uses; nothing is stored. Caps of an offer that amends a contract are left out: what that gives back is known on acceptance."""
    priced = offer.priced
    quote = Quote(
        organisation=organisation, pool=priced.pool, amends=amends, document=offer.document, worst=priced.worst,
        currency=priced.book.currency.code,
    )  # fmt: skip
    found = acceptance_refusals(quote, actor=actor, now=now)
    if amends is not None:
        return found
    shares = project_shares(priced) or {}
    try:
        for project_id, share in sorted(shares.items()):
            project_cap_check(
                organisation_id=organisation.pk, project_id=project_id, amount=share, currency=quote.currency, now=now,
                only_promised=True,
            )  # fmt: skip
        cap_check(
            organisation_id=organisation.pk, amount=priced.worst, currency=quote.currency, now=now, shares=shares,
            token_id=token_id,
        )  # fmt: skip
    except Problem as refusal:
        found.append(refusal)
    return found
