"""Drafts of invoices that a request can show: made in the request while little usage waits, else kept as a worker made them.

A draft over tens of thousands of usage rows reads each of them, which takes seconds and hundreds of megabytes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from django.db.models import F, OuterRef, Q, Subquery

from apps.accounts.broker import task_send_on_commit
from apps.accounts.models import Organisation
from apps.accounts.rates import Rate
from apps.accounts.turns import turn
from apps.invoicing.drafting import currencies_open, document_of_draft, invoice_draft, usage_open
from apps.invoicing.excerpts import ROWS_EACH
from apps.invoicing.models import KeptDraft
from apps.invoicing.selectors import uninvoiced_of
from apps.ledger.models import Chain

QUEUE = "books"
TASK = "apps.invoicing.tasks.draft_make"
ASKING = Rate("draft", 12, 3600)  # by organisation
LONG = 1_000  # usage rows of which a request makes a draft
LOST_AFTER = timedelta(seconds=60)
# By the clock a kept draft is made anew an hour after it when something was added, and a long one a hundredth of the time.
EVERY = timedelta(hours=1)
REST = 100

Clock = Callable[[], datetime]


class Shown(NamedTuple):
    """A draft as its `document`, or as it is `kept`, read no further; neither where nothing waits or none is made yet. The
    instant that it was made of, since when a newer one is asked for, and the currencies in which something is `open`."""

    document: dict[str, Any] | None
    kept: KeptDraft | None
    read_at: datetime | None
    asked_at: datetime | None
    open: list[str]


def is_long(organisation: Organisation, *, until: datetime) -> bool:
    """Whether more usage waits for an invoice than a request reads."""
    return usage_open(organisation, until=until).order_by()[: LONG + 1].count() > LONG


def currencies_waiting(organisation: Organisation, *, until: datetime, long: bool) -> list[str]:
    """The currencies in which something waits; where that is much, those of what is accrued, which no row is read for."""
    return [code for code, _ in uninvoiced_of(organisation)] if long else currencies_open(organisation, until=until)


def draft_shown(*, organisation: Organisation, currency: str | None, now: datetime) -> Shown:
    """The draft in a currency, without one the first in which something waits: of now, or as it is kept."""
    long = is_long(organisation, until=now)
    waiting = currencies_waiting(organisation, until=now, long=long)
    code = currency or next(iter(waiting), "")
    if not long:
        draft = invoice_draft(organisation=organisation, until=now, currency=code) if code else None
        return Shown(document_of_draft(draft, identity={}) if draft else None, None, now, None, waiting)
    kept = KeptDraft.objects.defer("document").filter(organisation=organisation, currency=code).first()
    if kept is None:
        return Shown(None, None, None, None, waiting)
    return Shown(None, kept if kept.read_at else None, kept.read_at, kept.asked_at, waiting)


@transaction.atomic
def draft_ask(*, organisation: Organisation, currency: str, now: datetime) -> KeptDraft:
    """Write down that a draft is wanted, and give it to a worker once this is committed."""
    KeptDraft.objects.bulk_create([KeptDraft(organisation=organisation, currency=currency)], ignore_conflicts=True)
    kept = KeptDraft.objects.defer("document").select_for_update().get(organisation=organisation, currency=currency)
    if kept.asked_at is None:
        kept.asked_at = now
        kept.save(update_fields=["asked_at"])
    task_send_on_commit(TASK, queue=QUEUE, organisation_id=str(organisation.pk), currency=currency)
    return kept


def draft_make(*, organisation_id: UUID, currency: str, clock: Clock) -> bool:
    """Make the draft that is asked for and keep it; False where none is asked for, or another process is at it."""
    with turn(f"draft {organisation_id} {currency}") as is_ours:
        known = KeptDraft.objects.filter(organisation_id=organisation_id, currency=currency, asked_at__isnull=False)
        if not is_ours or not known.exists():
            return False
        organisation = Organisation.objects.get(pk=organisation_id)
        chain, read_at = Chain.objects.filter(pk=organisation_id).first(), clock()
        draft = invoice_draft(organisation=organisation, until=read_at, currency=currency)
        if draft is None:
            return bool(known.delete()[0])
        document = outline(document_of_draft(draft, identity={}))
        kept = {"sequence": chain.sequence if chain else 0, "document": document}
        return bool(known.update(asked_at=None, read_at=read_at, finished_at=max(read_at, clock()), **kept))


def outline(document: dict[str, Any]) -> dict[str, Any]:
    """The document with the first usage rows of each line, and how many `more` there are."""
    lines = [
        {**line, "usage": line["usage"][:ROWS_EACH], "more": max(len(line["usage"]) - ROWS_EACH, 0)}
        for line in document["lines"]
    ]
    return {**document, "lines": lines}


def drafts_due(*, now: datetime, clock: Clock) -> int:
    """Make drafts that were asked for and lost, and anew those of organisations in which something was posted since; of
    those that never had one too, where much waits. Returns how many were made."""
    lost = KeptDraft.objects.filter(asked_at__lte=now - LOST_AFTER).values_list("organisation_id", "currency")
    made = sum(draft_make(organisation_id=pk, currency=code, clock=clock) for pk, code in list(lost))
    oldest = KeptDraft.objects.filter(organisation=OuterRef("organisation"), read_at__isnull=False).order_by("read_at")
    grown = Chain.objects.annotate(
        seen=Subquery(oldest.values("sequence")[:1]),
        read_at=Subquery(oldest.values("read_at")[:1]),
        ended_at=Subquery(oldest.values("finished_at")[:1]),
    ).filter(Q(seen=None) | Q(seen__lt=F("sequence")), sequence__gt=0)
    for chain in grown.select_related("organisation").order_by(F("read_at").asc(nulls_first=True), "organisation_id"):
        rested = chain.read_at is None or now - chain.read_at >= max(EVERY, REST * (chain.ended_at - chain.read_at))
        if rested and is_long(chain.organisation, until=now):
            for code in currencies_waiting(chain.organisation, until=now, long=True):
                draft_ask(organisation=chain.organisation, currency=code, now=clock())
                made += draft_make(organisation_id=chain.pk, currency=code, clock=clock)
    return made
