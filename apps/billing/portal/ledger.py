"""The ledger as a customer reads it: page by page, every page's hashes checked, the whole of it on demand."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from apps.accounts.access import organisation_get
from apps.accounts.models import Organisation
from apps.accounts.paging import page_of
from apps.billing.reconciling import reconcile_all
from apps.ledger.chain import hash_or_nothing
from apps.ledger.instant import one_instant
from apps.ledger.models import Chain, Entry, Transaction
from apps.ledger.posting import entries_text
from apps.ledger.selectors import balances, chain_verify, day_roots
from apps.pricing.selectors import book_in_force

PER_PAGE = 25
CHECKED_AT_ONCE = 20_000  # transactions that one look checks; longer chains are downloaded and checked by `takt verify`


class Row(NamedTuple):
    """A transaction, its entries in words, and whether its hash follows from it and the one before."""

    posted: Transaction
    entries: dict[str, str]
    follows: bool


@require_GET
def ledger(request: HttpRequest) -> HttpResponse:
    """Transactions, newest first, and the roots of days; `?check=1` checks the whole chain and reconciles it."""
    organisation, now = organisation_get(request), timezone.now()
    page = page_of(request, _transactions(organisation), ordering=("-sequence",), size=PER_PAGE)
    head = Chain.objects.filter(organisation=organisation).first()
    length = head.sequence if head else 0
    context: dict[str, Any] = {
        "page": page, "rows": rows_checked(list(page.object_list)), "length": length, "head": head,
        "roots": day_roots(organisation.id, now=now), "balances": sorted(balances(organisation.id).items()),
        "currency": book_in_force(at=now).currency, "now": now, "most": CHECKED_AT_ONCE,
        "too_long": length > CHECKED_AT_ONCE,
    }  # fmt: skip
    if request.GET.get("check") == "1" and not context["too_long"]:
        with one_instant():
            context |= {"chain": chain_verify(organisation.id), "reconciliation": reconcile_all(organisation)}
    return render(request, "billing/ledger.html", context)


def _transactions(organisation: Organisation) -> QuerySet[Transaction]:
    entries = Entry.objects.select_related("account").order_by("id")
    rows = Transaction.objects.filter(organisation=organisation).order_by("-sequence")
    return rows.prefetch_related(Prefetch("entries", queryset=entries))


def rows_checked(newest_first: list[Transaction]) -> list[Row]:
    """Each with whether it has its hash, and the hash of the one before it."""
    if not newest_first:
        return []
    last = newest_first[-1]
    before = Transaction.objects.filter(organisation_id=last.organisation_id, sequence=last.sequence - 1).first()
    earlier = [*newest_first[1:], before]
    rows = []
    for posted, previous in zip(newest_first, earlier, strict=True):
        told = previous.hash if previous else "0" * 64
        follows = posted.previous_hash == told and posted.hash == hash_or_nothing(posted, told, posted.sequence)
        rows.append(Row(posted, entries_text(posted), follows))
    return rows
