"""JSON API for credits and credit notes, and for closing invoices without payment."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.models import Organisation
from apps.accounts.numbers import Instant
from apps.accounts.paging import Cursor, paginate
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.invoicing import services
from apps.invoicing.adjustments import credits_left
from apps.invoicing.exports import credit_note_csv, credit_note_json, credit_note_pdf
from apps.invoicing.fields import Exact
from apps.invoicing.models import CreditGrant, CreditNote, Invoice
from apps.pricing.amounts import Code, Entered, amount_entered, currency_chosen
from apps.pricing.rating import decimal_text

router = Router(tags=["invoices and usage"])
ADMIN = requires(Scope.ADMIN)
TEXT = r"^[^\x00-\x1f]{1,300}$"


class CreditNoteIn(RequestBody):
    """A credit note to issue. `parts` maps line numbers to amounts before tax; by default, the rest of the invoice is
    credited.
    """

    reason: str = Field(pattern=TEXT)
    parts: dict[int, Entered] | None = None


class CreditNoteOut(Schema):
    id: UUID
    invoice_id: UUID
    number: str
    currency: str
    net: Exact
    tax: Exact
    total: Exact
    reason: str
    issued_at: datetime
    digest: str
    document: dict[str, Any]


class CreditIn(RequestBody):
    """A credit to grant. The default currency is the currency of the price book in force."""

    organisation: UUID
    amount: Entered
    currency: Code | None = None
    reason: str = Field(pattern=TEXT)
    expires_at: Instant | None = None


class CreditEndIn(RequestBody):
    reason: str = Field(pattern=TEXT)


class CreditOut(Schema):
    id: UUID
    kind: str
    amount: str
    left: str
    currency: str
    reason: str
    granted_at: datetime
    expires_at: datetime | None
    ended_at: datetime | None
    end_reason: str


class EndIn(RequestBody):
    action: Literal["void", "write-off", "collection"]
    reason: str = Field(pattern=TEXT)


class StateOut(Schema):
    id: UUID
    number: str
    state: str
    open: str


@router.get("/credit-notes", response=list[CreditNoteOut], operation_id="credit_note_list", summary="Credit notes")
@paginate(Cursor, ordering=("-issued_at", "id"))
def credit_note_list(request: HttpRequest) -> QuerySet[CreditNote]:
    """Lists the organisation's credit notes, newest first."""
    return CreditNote.objects.filter(organisation=organisation_get(request))


@router.get(
    "/credit-notes/{uuid:pk}/file", operation_id="credit_note_file", summary="A credit note as PDF, CSV or JSON"
)
def credit_note_file(request: HttpRequest, pk: UUID, kind: Literal["pdf", "csv", "json"] = "pdf") -> HttpResponse:
    """Downloads the credit note in the requested format."""
    return credit_note_response(org_object_get(request, CreditNote, pk=pk), kind)


@router.post(
    "/invoices/{uuid:pk}/credit-notes",
    auth=ADMIN,
    response={201: CreditNoteOut},
    operation_id="credit_note_create",
    summary="Issue a credit note",
)
@idempotent
def credit_note_create(request: HttpRequest, pk: UUID, payload: CreditNoteIn) -> tuple[int, CreditNote]:
    """Issues a credit note for an invoice; for administrators."""
    invoice, parts = _known(pk), None
    if payload.parts is not None:
        parts = {number: amount_entered(text, currency=invoice.unit) for number, text in payload.parts.items()}
    note = services.credit_note_issue(
        invoice_id=invoice.pk,
        parts=parts,
        reason=payload.reason,
        actor=principal_get(request).user,
        now=timezone.now(),
    )
    return 201, note


@router.post(
    "/invoices/{uuid:pk}/end",
    auth=ADMIN,
    response=StateOut,
    operation_id="invoice_end",
    summary="Void an invoice, write it off or send it to collection",
)
@idempotent
def invoice_end(request: HttpRequest, pk: UUID, payload: EndIn) -> dict[str, Any]:
    """Voids an invoice, writes it off, or sends it to collection; for administrators."""
    given: dict[str, Any] = {
        "invoice_id": _known(pk).pk,
        "actor": principal_get(request).user,
        "now": timezone.now(),
    }
    if payload.action == "void":
        invoice = services.invoice_void(reason=payload.reason, **given)
    elif payload.action == "write-off":
        invoice = services.invoice_write_off(reason=payload.reason, **given)
    else:
        invoice = services.invoice_collect(**given)
    return {"id": invoice.id, "number": invoice.number, "state": invoice.state, "open": decimal_text(invoice.open)}


@router.get(
    "/credits", response=list[CreditOut], operation_id="credit_list", summary="Credits with their remaining amounts"
)
def credit_list(request: HttpRequest) -> list[dict[str, Any]]:
    """Lists the credits in all currencies, sorted by expiry date."""
    return [_credit(one.grant, one.left) for one in credits_left(organisation_get(request))]


@router.post("/credits", auth=ADMIN, response={201: CreditOut}, operation_id="credit_create", summary="Grant a credit")
@idempotent
def credit_create(request: HttpRequest, payload: CreditIn) -> tuple[int, dict[str, Any]]:
    """Grants a credit; for administrators."""
    now = timezone.now()
    organisation = Organisation.objects.filter(pk=payload.organisation).first()
    if organisation is None:
        raise Problem(422, "Unknown organisation", "There is no organisation with this id.", kind="credit")
    key = request.headers.get("Idempotency-Key") or f"{now.isoformat()}:{payload.reason}"
    currency = currency_chosen(payload.currency, now=now)
    grant = services.grant_create(
        organisation=organisation,
        amount=amount_entered(payload.amount, currency=currency),
        currency=currency.code,
        reason=payload.reason,
        expires_at=payload.expires_at,
        idempotency_key=f"api:{key}"[:160],
        actor=principal_get(request).user,
        now=now,
    )
    return 201, _credit(grant, grant.amount)


@router.post(
    "/credits/{uuid:pk}/end", auth=ADMIN, response=CreditOut, operation_id="credit_end", summary="End a credit"
)
@idempotent
def credit_end(request: HttpRequest, pk: UUID, payload: CreditEndIn) -> dict[str, Any]:
    """Ends a credit early; for administrators. Credit needed for earlier, uninvoiced usage is kept (`left`)."""
    if not CreditGrant.objects.filter(pk=pk).exists():
        raise Http404
    grant = services.grant_end(
        grant_id=pk, reason=payload.reason, actor=principal_get(request).user, now=timezone.now()
    )
    left = next(one.left for one in credits_left(grant.organisation) if one.grant == grant)
    return _credit(grant, left)


def _credit(grant: CreditGrant, left: Decimal) -> dict[str, Any]:
    end = grant.ended
    return {
        "id": grant.id,
        "kind": grant.kind,
        "amount": decimal_text(grant.amount),
        "left": decimal_text(left),
        "currency": grant.currency,
        "reason": grant.reason,
        "granted_at": grant.granted_at,
        "expires_at": grant.expires_at,
        "ended_at": end.ended_at if end else None,
        "end_reason": end.reason if end else "",
    }


def _known(pk: UUID) -> Invoice:
    found = Invoice.objects.filter(pk=pk).first()
    if found is None:
        raise Http404
    return found


def credit_note_response(note: CreditNote, kind: str) -> HttpResponse:
    """Return a credit note as a download. Raises Http404 for an unknown file format."""
    writers: dict[str, tuple[str, Any]] = {
        "pdf": ("application/pdf", credit_note_pdf),
        "csv": ("text/csv; charset=utf-8", credit_note_csv),
        "json": ("application/json", credit_note_json),
    }
    if kind not in writers:
        raise Http404
    content_type, write = writers[kind]
    response = HttpResponse(write(note), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{note.number}.{kind}"'
    return response
