"""JSON API for reading and requesting ledger checks."""

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
from apps.invoicing.ledger_checks import REQUEST_RATE, last_check, ledger_check_request, open_check
from apps.invoicing.models import LedgerCheck
from apps.ledger.models import Chain
from apps.ledger.selectors import day_roots

router = Router(tags=["ledger"])


class RootOut(Schema):
    """The root hash of a day. `stored` is false until the day has ended and the root hash has been stored."""

    day: datetime
    sequence: int
    hash: str
    stored: bool


class SumsOut(Schema):
    """The exact sums in one currency."""

    currency: str
    metered: str
    rated: str
    posted: str
    invoiced: str
    not_yet_invoiced: str


class FoundOut(Schema):
    """The result of a check. `checked_at` is the time at which the check read the ledger; null until a check has finished."""

    checked_at: datetime | None
    intact: bool | None
    transactions: int
    head: str
    reason: str
    amounts: list[SumsOut]
    differences: list[str]


class LedgerOut(FoundOut):
    """The result of the last finished check. If a new check has been requested, `asked_at` is the time of that request."""

    length: int
    asked_at: datetime | None
    roots: list[RootOut]


class LedgerCheckOut(FoundOut):
    """A check with its result. `finished_at` is null until the check is finished."""

    id: UUID
    asked_at: datetime
    finished_at: datetime | None


@router.get("/ledger", response=LedgerOut, operation_id="ledger_get", summary="Last ledger check and daily root hashes")
def ledger_get(request: HttpRequest) -> dict[str, Any]:
    """Returns the last check of the whole ledger, and the daily root hashes."""
    organisation, now = organisation_get(request), timezone.now()
    waiting, head = open_check(organisation.id), Chain.objects.filter(organisation=organisation).first()
    roots = day_roots(organisation.id, now=now)
    return {
        **check_json(last_check(organisation.id)),
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
    summary="Check the whole ledger now",
)
@idempotent
def ledger_check_create(request: HttpRequest) -> tuple[int, dict[str, Any]]:
    """Requests a check of the whole ledger by a worker. If a check is already waiting or running, that check is returned."""
    return 202, _check_out(check_start(request))


@router.get(
    "/ledger/checks/{uuid:pk}",
    response=LedgerCheckOut,
    operation_id="ledger_check_get",
    summary="Get one check of the ledger",
)
def ledger_check_get(request: HttpRequest, pk: UUID) -> dict[str, Any]:
    """Returns a check. The result is present once the check has finished."""
    return _check_out(org_object_get(request, LedgerCheck, pk=pk))


def check_start(request: HttpRequest) -> LedgerCheck:
    """Request a check on behalf of the caller. Raises Problem (429) after too many requests."""
    organisation = organisation_get(request)
    rate_take(REQUEST_RATE, str(organisation.pk))
    return ledger_check_request(organisation=organisation, actor=principal_get(request).user, now=timezone.now())


def check_json(check: LedgerCheck | None) -> dict[str, Any]:
    """Return the result of a check. The result is empty unless the check has finished."""
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


def _check_out(check: LedgerCheck) -> dict[str, Any]:
    return {
        **check_json(check),
        "id": check.pk,
        "asked_at": check.asked_at,
        "finished_at": check.finished_at,
    }
