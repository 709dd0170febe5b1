"""A quote while it is open: withdrawn, its share link made when somebody asks for one, and ended."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.sales.models import Quote, QuoteState

SHARE_DAYS = 30
SHARE_DAYS_MAX = 365


@transaction.atomic
def quote_withdraw(*, quote_id: UUID, organisation: Organisation, actor: User | None, now: datetime) -> Quote:
    """Take back an offer that nobody accepted; safe to repeat. Raises Problem(409) when it has become a contract."""
    quote = _locked(quote_id, organisation)
    if quote.state == QuoteState.ACCEPTED:
        raise Problem(
            409,
            "Already accepted",
            "This quote has become a contract; end or amend that instead.",
            kind="quote-accepted",
        )
    if quote.state == QuoteState.WITHDRAWN:
        return quote
    quote.state = QuoteState.WITHDRAWN
    quote.save(update_fields=["state"])
    audit_record(action="quote.withdraw", subject=f"quote {quote.id}", actor=actor, organisation=organisation, now=now)
    return quote


@transaction.atomic
def quote_unshare(*, quote_id: UUID, organisation: Organisation, actor: User | None, now: datetime) -> Quote:
    """End the share link: whoever has it sees nothing from now on. Safe to repeat."""
    quote = _locked(quote_id, organisation)
    if quote.share_token is None:
        return quote
    quote.share_token, quote.share_until = None, None
    quote.save(update_fields=["share_token", "share_until"])
    audit_record(action="quote.unshare", subject=f"quote {quote.id}", actor=actor, organisation=organisation, now=now)
    return quote


@transaction.atomic
def quote_share(
    *, quote_id: UUID, organisation: Organisation, actor: User | None, now: datetime, days: int | None = None
) -> Quote:
    """Make a share link that lasts for `days` (30 unless stated). A link that works keeps its address: `days` then move
    its end. An old link never comes back. Raises Problem(422) for a time that is not from 1 to 365 days."""
    if days is not None and not 1 <= days <= SHARE_DAYS_MAX:
        detail = f"A share link lasts from 1 to {SHARE_DAYS_MAX} days."
        raise Problem(422, "Not such a time", detail, kind="share-days")
    quote = _locked(quote_id, organisation)
    if quote.is_shared(now=now) and days is None:
        return quote
    if not quote.is_shared(now=now):
        quote.share_token = secrets.token_urlsafe(32)
    quote.share_until = now + timedelta(days=days or SHARE_DAYS)
    quote.save(update_fields=["share_token", "share_until"])
    audit_record(
        action="quote.share",
        subject=f"quote {quote.id}",
        actor=actor,
        organisation=organisation,
        now=now,
        detail={"until": quote.share_until.isoformat()},
    )
    return quote


def _locked(quote_id: UUID, organisation: Organisation) -> Quote:
    """Under the lock under which a quote is accepted, so that it is never both withdrawn and accepted."""
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    return Quote.objects.filter(organisation=organisation).get(pk=quote_id)
