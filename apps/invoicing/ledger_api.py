"""The state of a customer's history over JSON: the last check of all of it, and a new one for whoever asks."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.idempotency import idempotent
from apps.accounts.rates import rate_take
from apps.invoicing.checking import ASKING, last_check, ledger_check_ask, open_check
from apps.invoicing.models import LedgerCheck
from apps.ledger.models import Chain
from apps.ledger.selectors import day_roots

router = Router(tags=["ledger"])


class RootOut(Schema):
    """`stored`: the day is over, and its root was written down."""

    day: datetime
    sequence: int
    hash: str
    stored: bool


class SumsOut(Schema):
    """Exact amounts."""

    currency: str
    metered: str
    rated: str
    posted: str
    invoiced: str
    not_yet_invoiced: str


class FoundOut(Schema):
    """What a check of the whole history found. `checked_at`: the instant that it read; null while there is none, and all
    that it would have found is null or empty then. `amounts`: the sums of each currency apart from the others."""

    checked_at: datetime | None
    intact: bool | None
    transactions: int
    head: str
    reason: str
    amounts: list[SumsOut]
    differences: list[str]


class LedgerOut(FoundOut):
    """The last check that is finished. `length` is how many transactions there are now, `asked_at` since when a newer check
    is under way; null where none is."""

    length: int
    asked_at: datetime | None
    roots: list[RootOut]


class LedgerCheckOut(FoundOut):
    """One check; it is finished when `finished_at` is set."""

    id: UUID
    asked_at: datetime
    finished_at: datetime | None


@router.get("/ledger", response=LedgerOut, operation_id="ledger_get", summary="Proof that history was not changed")
def ledger_get(request: HttpRequest) -> dict[str, Any]:
    """The last check of the whole chain and its reconciliation, with the instant at which everything was read, and the
    roots of days as they are now. `POST /ledger/checks` asks for a newer check."""
    organisation, now = organisation_get(request), timezone.now()
    waiting, head = open_check(organisation.id), Chain.objects.filter(organisation=organisation).first()
    roots = day_roots(organisation.id, now=now)
    return {
        **found_json(last_check(organisation.id)),
        "length": head.sequence if head else 0,
        "asked_at": waiting.asked_at if waiting else None,
        "roots": [
            {"day": one.day, "sequence": one.sequence, "hash": one.hash, "stored": one.is_stored} for one in roots
        ],
    }


@router.post(
    "/ledger/checks",
    response={202: LedgerCheckOut},
    operation_id="ledger_check_create",
    summary="Check the whole history now",
)
@idempotent
def ledger_check_create(request: HttpRequest) -> tuple[int, dict[str, Any]]:
    """Answers at once; a worker computes every hash again and reconciles everything. While a check is under way the answer
    is that one."""
    return 202, _told(check_begin(request))


@router.get(
    "/ledger/checks/{uuid:pk}",
    response=LedgerCheckOut,
    operation_id="ledger_check_get",
    summary="One check of the history",
)
def ledger_check_get(request: HttpRequest, pk: UUID) -> dict[str, Any]:
    """What it found, once it is finished."""
    return _told(org_object_get(request, LedgerCheck, pk=pk))


def check_begin(request: HttpRequest) -> LedgerCheck:
    """Ask for a check in the name of whoever sends the request. Raises Problem(429) when it was asked too often."""
    organisation = organisation_get(request)
    rate_take(ASKING, str(organisation.pk))
    return ledger_check_ask(organisation=organisation, actor=principal_get(request).user, now=timezone.now())


def found_json(check: LedgerCheck | None) -> dict[str, Any]:
    """What a check found, or that there is none that is finished."""
    done = check if check and check.finished_at else LedgerCheck()
    return {
        "checked_at": done.read_at,
        "intact": done.intact if done.finished_at else None,
        "transactions": done.sequence,
        "head": done.head,
        "reason": done.reason,
        "amounts": done.amounts,
        "differences": done.differences,
    }


def _told(check: LedgerCheck) -> dict[str, Any]:
    return {
        **found_json(check),
        "id": check.pk,
        "asked_at": check.asked_at,
        "finished_at": check.finished_at,
    }
