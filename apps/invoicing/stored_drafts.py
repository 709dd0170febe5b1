"""Invoice drafts for pages and the API.

A worker computes and stores a draft if there are many uninvoiced usage rows.
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
REQUEST_RATE = Rate("draft", 12, 3600)  # by organisation
ROWS_MAX = 1_000  # usage rows that a request reads
LOST_AFTER = timedelta(seconds=60)
# A stored draft is renewed after an hour if something was added; a slow one is made in at most a hundredth of the time.
EVERY = timedelta(hours=1)
PAUSE_FACTOR = 100

Clock = Callable[[], datetime]


class DraftStatus(NamedTuple):
    """The newest draft of an invoice: `document` if computed now, `kept` if stored. Both are None if there is no draft.

    If a newer draft was requested, `asked_at` is the time of the request. `open` lists the currencies with something to
    invoice.
    """

    document: dict[str, Any] | None
    kept: KeptDraft | None
    read_at: datetime | None
    asked_at: datetime | None
    open: list[str]


def has_many_rows(organisation: Organisation, *, until: datetime) -> bool:
    """Return whether there are more uninvoiced usage rows than a web request reads."""
    return usage_open(organisation, until=until).order_by()[: ROWS_MAX + 1].count() > ROWS_MAX


def currencies_waiting(organisation: Organisation, *, until: datetime, long: bool) -> list[str]:
    """Return the currencies with something to invoice. `long` means that there are too many usage rows to read."""
    return [code for code, _ in uninvoiced_of(organisation)] if long else currencies_open(organisation, until=until)


def draft_status(*, organisation: Organisation, currency: str | None, now: datetime) -> DraftStatus:
    """Return the draft in a currency. The default currency is the first with something to invoice."""
    long = has_many_rows(organisation, until=now)
    waiting = currencies_waiting(organisation, until=now, long=long)
    code = currency or next(iter(waiting), "")
    if not long:
        draft = invoice_draft(organisation=organisation, until=now, currency=code) if code else None
        return DraftStatus(document_of_draft(draft, identity={}) if draft else None, None, now, None, waiting)
    kept = KeptDraft.objects.defer("document").filter(organisation=organisation, currency=code).first()
    if kept is None:
        return DraftStatus(None, None, None, None, waiting)
    return DraftStatus(None, kept if kept.read_at else None, kept.read_at, kept.asked_at, waiting)


@transaction.atomic
def draft_request(*, organisation: Organisation, currency: str, now: datetime) -> KeptDraft:
    """Store and queue a request for a draft."""
    KeptDraft.objects.bulk_create([KeptDraft(organisation=organisation, currency=currency)], ignore_conflicts=True)
    kept = KeptDraft.objects.defer("document").select_for_update().get(organisation=organisation, currency=currency)
    if kept.asked_at is None:
        kept.asked_at = now
        kept.save(update_fields=["asked_at"])
    task_send_on_commit(TASK, queue=QUEUE, organisation_id=str(organisation.pk), currency=currency)
    return kept


def draft_make(*, organisation_id: UUID, currency: str, clock: Clock) -> bool:
    """Make and store a requested draft. Return False if no draft is requested or another process is making it."""
    with turn(f"draft {organisation_id} {currency}") as is_ours:
        known = KeptDraft.objects.filter(organisation_id=organisation_id, currency=currency, asked_at__isnull=False)
        if not is_ours or not known.exists():
            return False
        organisation = Organisation.objects.get(pk=organisation_id)
        chain, read_at = Chain.objects.filter(pk=organisation_id).first(), clock()
        draft = invoice_draft(organisation=organisation, until=read_at, currency=currency)
        if draft is None:
            return bool(known.delete()[0])
        document = document_outline(document_of_draft(draft, identity={}))
        kept = {"sequence": chain.sequence if chain else 0, "document": document}
        return bool(known.update(asked_at=None, read_at=read_at, finished_at=max(read_at, clock()), **kept))


def document_outline(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with only the first usage rows of each line. `more` is the number of omitted rows."""
    lines = [
        {**line, "usage": line["usage"][:ROWS_EACH], "more": max(len(line["usage"]) - ROWS_EACH, 0)}
        for line in document["lines"]
    ]
    return {**document, "lines": lines}


def drafts_make_due(*, now: datetime, clock: Clock) -> int:
    """Make all drafts that are due. Return the number of drafts made."""
    lost = KeptDraft.objects.filter(asked_at__lte=now - LOST_AFTER).values_list("organisation_id", "currency")
    made = sum(draft_make(organisation_id=pk, currency=code, clock=clock) for pk, code in list(lost))
    oldest = KeptDraft.objects.filter(organisation=OuterRef("organisation"), read_at__isnull=False).order_by("read_at")
    grown = Chain.objects.annotate(
        seen=Subquery(oldest.values("sequence")[:1]),
        read_at=Subquery(oldest.values("read_at")[:1]),
        ended_at=Subquery(oldest.values("finished_at")[:1]),
    ).filter(Q(seen=None) | Q(seen__lt=F("sequence")), sequence__gt=0)
    for chain in grown.select_related("organisation").order_by(F("read_at").asc(nulls_first=True), "organisation_id"):
        rested = chain.read_at is None or now - chain.read_at >= max(
            EVERY, PAUSE_FACTOR * (chain.ended_at - chain.read_at)
        )
        if rested and has_many_rows(chain.organisation, until=now):
            for code in currencies_waiting(chain.organisation, until=now, long=True):
                draft_request(organisation=chain.organisation, currency=code, now=clock())
                made += draft_make(organisation_id=chain.pk, currency=code, clock=clock)
    return made
