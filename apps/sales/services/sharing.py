"""Withdraw quotes, and create and end share links."""

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
    """Withdraw a quote. Safe to repeat. Raises Problem(409) if the quote has become a contract."""
    quote = _locked(quote_id, organisation)
    if quote.state == QuoteState.ACCEPTED:
        raise Problem(
            409,
            "Already accepted",
            "This quote has become a contract. End or amend the contract instead.",
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
    """End the share link of a quote at once. Safe to repeat."""
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
    """Create a share link that works for `days` days, by default 30. A working link keeps its URL.

    Raises Problem(422) if `days` is not from 1 to 365, and Problem(409) if the quote was withdrawn.
    """
    if days is not None and not 1 <= days <= SHARE_DAYS_MAX:
        detail = f"Enter 1 to {SHARE_DAYS_MAX} days for a share link."
        raise Problem(422, "Impossible duration", detail, kind="share-days")
    quote = _locked(quote_id, organisation)
    if quote.state == QuoteState.WITHDRAWN:
        detail = "This quote was withdrawn, so it can't be shared. Make a new quote and share that one."
        raise Problem(409, "Withdrawn", detail, kind="quote-withdrawn")
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
    # Acceptance takes the same locks, so a quote is never both withdrawn and accepted.
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    return Quote.objects.filter(organisation=organisation).get(pk=quote_id)
