"""JSON API of invoices, drafts, usage and spend caps."""

from __future__ import annotations

from datetime import datetime
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
from apps.accounts.numbers import Instant
from apps.accounts.paging import Cursor, paginate
from apps.accounts.problems import Problem
from apps.accounts.rates import rate_take
from apps.accounts.roles import MONEY, Scope
from apps.invoicing import selectors, services
from apps.invoicing.excerpts import Stored, document_text
from apps.invoicing.exporting import router as exporting_router
from apps.invoicing.exports import invoice_csv, invoice_json, invoice_pdf
from apps.invoicing.fields import Exact
from apps.invoicing.ledger_api import router as ledger_router
from apps.invoicing.models import Invoice, KeptDraft
from apps.invoicing.settling_api import router as settling_router
from apps.invoicing.stored_drafts import REQUEST_RATE, currencies_waiting, draft_request, draft_status, has_many_rows
from apps.ledger.models import UsageRow
from apps.ledger.selectors import caps_like, spending
from apps.ledger.services import detail_of
from apps.pricing.amounts import Code, Entered, amount_entered, currency_chosen
from apps.pricing.rating import decimal_text

router = Router(tags=["invoices and usage"])
router.add_router("", settling_router)
router.add_router("", exporting_router)
router.add_router("", ledger_router)
BILLING = requires(Scope.BILLING, roles=MONEY)


class InvoiceIn(RequestBody):
    """An invoice to issue. By default, `currency` is the first currency with something to invoice."""

    until: Instant | None = None
    currency: Code | None = None


class InvoiceRowOut(Schema):
    """An invoice without its document. `GET /invoices/{id}` returns the document."""

    id: UUID
    number: str
    state: str
    currency: str
    net: Exact
    carried_in: Exact
    carried_out: Exact
    payable: Exact
    tax: Exact
    due: Exact
    open: Exact
    reminders: int
    period_start: datetime
    period_end: datetime
    issued_at: datetime
    due_at: datetime
    paid_at: datetime | None
    digest: str


class InvoiceOut(InvoiceRowOut):
    """An invoice with its document."""

    document: dict[str, Any]


class DraftOut(Schema):
    """The draft of an invoice for everything that was open at `made_at`.

    With up to 1,000 open usage rows, the draft is computed for this request. With more rows, the latest stored draft is
    returned. A line of a stored draft has only the first usage rows; `more` is the number of omitted rows. Before the
    first draft exists, `document` and `made_at` are null. `asked_at` is the instant at which a newer draft was
    requested.
    """

    document: dict[str, Any] | None
    open: list[str]
    made_at: datetime | None
    asked_at: datetime | None


class DraftAskedOut(Schema):
    """A requested draft. The draft is ready when `GET /invoices/draft` returns null as `asked_at` for this currency."""

    currency: str
    asked_at: datetime


class DraftIn(RequestBody):
    """A draft to request. By default, `currency` is the first currency with something to invoice."""

    currency: Code | None = None


class PaidIn(RequestBody):
    """A received payment. `amount` is in the currency of the invoice.

    An `amount` above the invoice's open amount is refused with 409. If `overpaid` is true, the amount is accepted and
    the excess is added to the customer's balance.
    """

    amount: Entered
    reference: str = Field(pattern=r"^[^\x00-\x1f]{1,120}$")
    overpaid: bool = False


class UsageOut(Schema):
    detail: dict[str, Any]

    @staticmethod
    def resolve_detail(row: UsageRow) -> dict[str, Any]:
        return detail_of(row)


class CapIn(RequestBody):
    """The spend cap to set. If `amount` is null, the cap is removed. By default, `currency` is the currency of the
    price book in force.
    """

    amount: Entered | None = None
    currency: Code | None = None


class CapOut(Schema):
    """A spend cap, with the amounts used and held. `refuses` is true if there are caps in other currencies but not in
    this currency. Then no quote in this currency can be accepted.
    """

    cap: str | None
    used: str
    held: str
    currency: str
    refuses: bool


def _invoice(request: HttpRequest, pk: UUID) -> Invoice:
    return org_object_get(request, Invoice, pk=pk)


@router.get("/invoices", response=list[InvoiceRowOut], operation_id="invoice_list", summary="Invoices")
@paginate(Cursor, ordering=("-issued_at", "id"))
def invoice_list(request: HttpRequest) -> QuerySet[Invoice]:
    """Lists the organisation's invoices without their documents, newest first."""
    return selectors.invoices_of(organisation_get(request))


@router.post(
    "/invoices", auth=BILLING, response={201: InvoiceOut}, operation_id="invoice_create", summary="Issue an invoice"
)
@idempotent
def invoice_create(request: HttpRequest, payload: InvoiceIn) -> tuple[int, Invoice]:
    """Issues an invoice for all open usage in one currency before `until`. By default, `until` is now."""
    organisation = organisation_get(request, roles=MONEY)
    return 201, services.invoice_issue(
        organisation=organisation,
        until=payload.until,
        currency=payload.currency,
        actor=principal_get(request).user,
        now=timezone.now(),
    )


@router.get("/invoices/draft", response=DraftOut, operation_id="invoice_draft", summary="Draft invoice")
def draft(request: HttpRequest, currency: Code | None = None) -> dict[str, Any] | HttpResponse:
    """Returns the draft in one currency. By default, `currency` is the first currency with something to invoice.

    `document` is null if there is nothing to invoice. `open` lists all currencies with something to invoice.
    """
    organisation, now = organisation_get(request), timezone.now()
    shown = draft_status(organisation=organisation, currency=currency, now=now)
    answer = {"document": shown.document, "open": shown.open, "made_at": shown.read_at, "asked_at": shown.asked_at}
    return _with_document(DraftOut.model_validate(answer), shown.kept) if shown.kept else answer


@router.post(
    "/invoices/draft", response={202: DraftAskedOut}, operation_id="invoice_draft_make", summary="Create a new draft"
)
@idempotent
def draft_create(request: HttpRequest, payload: DraftIn) -> tuple[int, KeptDraft]:
    """Requests a new draft, which a worker creates. With up to 1,000 open usage rows, a request is not needed, because
    every `GET` computes the draft.
    """
    return 202, draft_start(request, payload.currency)


def draft_start(request: HttpRequest, currency: str | None) -> KeptDraft:
    """Request a draft from a worker. Raises Problem(409) if there is nothing to invoice, and Problem(429) after too
    many requests.
    """
    organisation, now = organisation_get(request), timezone.now()
    long = has_many_rows(organisation, until=now)
    waiting = currencies_waiting(organisation, until=now, long=long)
    code = currency or next(iter(waiting), "")
    if code not in waiting:
        raise Problem(409, "Nothing to invoice", "All usage has already been invoiced.", kind="nothing-to-invoice")
    rate_take(REQUEST_RATE, str(organisation.pk))
    return draft_request(organisation=organisation, currency=code, now=now)


@router.get("/invoices/{uuid:pk}", response=InvoiceOut, operation_id="invoice_get", summary="One invoice")
def invoice_get(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Returns the invoice with every line, step and usage row."""
    invoice = org_object_get(request, Invoice.objects.defer("document"), pk=pk)
    return _with_document(InvoiceRowOut.from_orm(invoice), invoice)


def _with_document(answer: Schema, stored: Stored) -> HttpResponse:
    # The document is inserted as text, without parsing.
    text = f'{answer.model_dump_json(exclude={"document"})[:-1]},"document":{document_text(stored)}}}'
    return HttpResponse(text, content_type="application/json; charset=utf-8")


@router.get("/invoices/{uuid:pk}/file", operation_id="invoice_file", summary="An invoice as PDF, CSV or JSON")
def invoice_file(request: HttpRequest, pk: UUID, kind: Literal["pdf", "csv", "json"] = "pdf") -> HttpResponse:
    """Downloads the invoice as a file. The JSON file is the input of `takt verify`."""
    return invoice_file_response(_invoice(request, pk), kind)


@router.post(
    "/invoices/{uuid:pk}/paid",
    auth=requires(Scope.ADMIN),
    response=InvoiceOut,
    operation_id="invoice_paid",
    summary="Record a payment",
)
@idempotent
def invoice_paid(request: HttpRequest, pk: UUID, payload: PaidIn) -> Invoice:
    """Records a payment. Only administrators may record payments."""
    invoice = Invoice.objects.filter(pk=pk).first()
    if invoice is None:
        raise Http404
    return services.invoice_mark_paid(
        invoice_id=pk,
        amount=amount_entered(payload.amount, currency=invoice.unit),
        reference=payload.reference,
        actor=principal_get(request).user,
        now=timezone.now(),
        is_overpaid=payload.overpaid,
    )


@router.get("/usage", response=list[UsageOut], operation_id="usage_list", summary="Usage rows")
@paginate(Cursor, ordering=("-created_at", "id"))
def usage_list(request: HttpRequest) -> QuerySet[UsageRow]:
    """Lists usage rows with their ratings. There is one row for each lease."""
    return UsageRow.objects.filter(organisation=organisation_get(request))


@router.get("/spend-cap", response=CapOut, operation_id="spend_cap_get", summary="Spend cap with used and held amounts")
def spend_cap_get(request: HttpRequest, currency: Code | None = None) -> dict[str, Any]:
    """Format a notice period: whole hours are given in hours, other periods in minutes."""
    now = timezone.now()
    return _cap(organisation_get(request).id, currency_chosen(currency, now=now).code, now)


@router.put("/spend-cap", auth=BILLING, response=CapOut, operation_id="spend_cap_set", summary="Set the spend cap")
def spend_cap_set(request: HttpRequest, payload: CapIn) -> dict[str, Any]:
    """Sets or removes the spend cap of a currency. Quotes that would exceed the cap cannot be accepted. While another
    currency has a cap, quotes in a currency without a cap cannot be accepted.
    """
    organisation, now = organisation_get(request, roles=MONEY), timezone.now()
    chosen = currency_chosen(payload.currency, now=now)
    services.cap_change(
        organisation=organisation,
        amount=None if payload.amount is None else amount_entered(payload.amount, currency=chosen),
        currency=chosen.code,
        actor=principal_get(request).user,
        now=now,
    )
    return _cap(organisation.id, chosen.code, now)


def _cap(organisation_id: UUID, currency: str, now: datetime) -> dict[str, Any]:
    spent, caps = spending(organisation_id=organisation_id, currency=currency, now=now), caps_like(organisation_id)
    cap = caps.get(currency)
    return {
        "cap": decimal_text(cap.amount) if cap else None,
        "used": decimal_text(spent.used),
        "held": decimal_text(spent.held),
        "currency": currency,
        "refuses": bool(caps) and cap is None,
    }


def invoice_file_response(invoice: Invoice, kind: str) -> HttpResponse:
    """Return an invoice as a download."""
    writers = {
        "pdf": ("application/pdf", invoice_pdf),
        "csv": ("text/csv; charset=utf-8", invoice_csv),
        "json": ("application/json", invoice_json),
    }
    if kind not in writers:
        raise Problem(422, "Unknown kind", "Choose pdf, csv or json.", kind="kind-unknown")
    content_type, write = writers[kind]
    response = HttpResponse(write(invoice), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{invoice.number}.{kind}"'
    return response
