"""A quote while it is open: taken back, its share link revoked or made anew."""

from __future__ import annotations

import secrets
from datetime import datetime
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.sales.models import Quote, QuoteState


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
    """Revoke the share link: whoever has it sees nothing from now on. Safe to repeat."""
    quote = _locked(quote_id, organisation)
    if quote.share_token is None:
        return quote
    quote.share_token = None
    quote.save(update_fields=["share_token"])
    audit_record(action="quote.unshare", subject=f"quote {quote.id}", actor=actor, organisation=organisation, now=now)
    return quote


@transaction.atomic
def quote_share(*, quote_id: UUID, organisation: Organisation, actor: User | None, now: datetime) -> Quote:
    """Make a share link where there is none; an old one never comes back."""
    quote = _locked(quote_id, organisation)
    if quote.share_token is not None:
        return quote
    quote.share_token = secrets.token_urlsafe(32)
    quote.save(update_fields=["share_token"])
    audit_record(action="quote.share", subject=f"quote {quote.id}", actor=actor, organisation=organisation, now=now)
    return quote


def _locked(quote_id: UUID, organisation: Organisation) -> Quote:
    """Under the lock under which a quote is accepted, so that it is never both withdrawn and accepted."""
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    return Quote.objects.filter(organisation=organisation).get(pk=quote_id)
