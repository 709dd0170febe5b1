"""The ledger page: transactions with checked hashes, and the last check of the whole ledger."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from apps.accounts.access import organisation_get
from apps.accounts.models import Organisation
from apps.accounts.paging import page_of
from apps.invoicing.ledger_api import check_start
from apps.invoicing.ledger_checks import last_check, open_check
from apps.ledger.chain import hash_or_nothing
from apps.ledger.models import Chain, Entry, Transaction
from apps.ledger.posting import entries_text
from apps.ledger.selectors import balances, day_roots
from apps.pricing.selectors import book_in_force

PER_PAGE = 25


class LedgerRow(NamedTuple):
    """A transaction and its entries as text. `follows` is True if the transaction's hash is valid."""

    posted: Transaction
    entries: dict[str, str]
    follows: bool


@require_http_methods(["GET", "POST"])
def ledger(request: HttpRequest) -> HttpResponse:
    """Show the transactions, the daily root hashes and the last check. A POST starts a new check."""
    if request.method == "POST":
        check_start(request)
        return redirect("portal:ledger")
    organisation, now = organisation_get(request), timezone.now()
    context = _check_status(organisation)
    if request.headers.get("HX-Request"):
        return render(request, "portal/_ledger_check.html", context)
    page = page_of(request, _transactions(organisation), ordering=("-sequence",), size=PER_PAGE)
    context |= {
        "page": page,
        "rows": rows_checked(list(page.object_list)),
        "roots": day_roots(organisation.id, now=now),
        "balances": sorted(balances(organisation.id).items()),
        "currency": book_in_force(at=now).currency,
        "now": now,
    }
    return render(request, "portal/ledger.html", context)


def _check_status(organisation: Organisation) -> dict[str, Any]:
    head = Chain.objects.filter(organisation=organisation).first()
    check, length = last_check(organisation.pk), head.sequence if head else 0
    return {
        "check": check,
        "waiting": open_check(organisation.pk),
        "head": head,
        "length": length,
        "since": max(0, length - check.sequence) if check else length,
    }


def _transactions(organisation: Organisation) -> QuerySet[Transaction]:
    entries = Entry.objects.select_related("account").order_by("id")
    rows = Transaction.objects.filter(organisation=organisation).order_by("-sequence")
    return rows.prefetch_related(Prefetch("entries", queryset=entries))


def rows_checked(newest_first: list[Transaction]) -> list[LedgerRow]:
    """Check the hash of each transaction against its content and the previous hash."""
    if not newest_first:
        return []
    last = newest_first[-1]
    previous_of_last = Transaction.objects.filter(
        organisation_id=last.organisation_id, sequence=last.sequence - 1
    ).first()
    earlier = [*newest_first[1:], previous_of_last]
    rows = []
    for posted, previous in zip(newest_first, earlier, strict=True):
        previous_hash = previous.hash if previous else "0" * 64
        follows = posted.previous_hash == previous_hash and posted.hash == hash_or_nothing(
            posted, previous_hash, posted.sequence
        )
        rows.append(LedgerRow(posted, entries_text(posted), follows))
    return rows
