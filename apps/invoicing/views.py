"""Pages for invoices, the billing address and payments."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import org_object_get, organisation_get, platform_admin_check, principal_get
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.accounts.roles import MONEY
from apps.dispatch.models import Lease
from apps.invoicing import selectors, services
from apps.invoicing.api import draft_start, invoice_file_response
from apps.invoicing.drafting import currencies_open, invoice_draft
from apps.invoicing.excerpts import Excerpt, document_excerpt, first_line, stored_excerpt
from apps.invoicing.forms import PaymentForm, ProfileForm
from apps.invoicing.models import BillingProfile, CreditNote, Invoice
from apps.invoicing.payments import provider_of
from apps.invoicing.services.disputing import balance_returned
from apps.invoicing.settling_api import credit_note_response
from apps.invoicing.stored_drafts import DraftStatus, draft_status, has_many_rows
from apps.sales.views.quotes import instant, lined

PER_PAGE = 25


@require_GET
def invoice_list(request: HttpRequest) -> HttpResponse:
    """Show the list of invoices and the amounts of the next invoice."""
    organisation, now = organisation_get(request), timezone.now()
    page = page_of(request, selectors.invoices_of(organisation), ordering=("-issued_at", "-id"), size=PER_PAGE)
    long = has_many_rows(organisation, until=now)
    drafts = [
        invoice_draft(organisation=organisation, until=now, currency=code)
        for code in ([] if long else currencies_open(organisation, until=now))
    ]
    waiting = selectors.uninvoiced_of(organisation) if long else []
    codes = [code for code, _ in waiting] + [draft.currency for draft in drafts if draft]
    context = {"page": page, "drafts": drafts, "waiting": waiting, "codes": codes, "now": now}
    return render(request, "invoicing/invoice_list.html", context)


@require_POST
def invoice_create(request: HttpRequest) -> HttpResponse:
    """Issue an invoice for all uninvoiced usage."""
    organisation = organisation_get(request, roles=MONEY)
    try:
        invoice = services.invoice_issue(
            organisation=organisation,
            currency=_currency(request.POST),
            actor=principal_get(request).user,
            now=timezone.now(),
        )
    except Problem as refusal:
        messages.error(request, refusal.detail)
        return redirect("invoicing:invoice_list")
    messages.success(request, f"Invoice {invoice.number} issued.")
    return redirect("invoicing:invoice_detail", pk=invoice.pk)


def _currency(data: QueryDict) -> str | None:
    code = data.get("currency", "")
    return code if re.fullmatch(r"[A-Z]{3}", code) else None


@require_http_methods(["GET", "POST"])
def invoice_draft_page(request: HttpRequest) -> HttpResponse:
    """Show the draft invoice. A POST requests a new draft."""
    organisation, now = organisation_get(request), timezone.now()
    if request.method == "POST":
        asked = draft_start(request, _currency(request.POST))
        return redirect(f"{reverse('invoicing:invoice_draft')}?currency={asked.currency}")
    code = _currency(request.GET)
    shown = draft_status(organisation=organisation, currency=code, now=now)
    context: dict[str, Any] = {"shown": shown, "now": now, "code": code}
    excerpt = _excerpt(shown, first=first_line(request.GET.get("line")))
    if excerpt is None and shown.read_at:
        messages.info(request, "All usage has already been invoiced.")
        return redirect("invoicing:invoice_list")
    if excerpt is not None:
        context |= _document_context(excerpt) | {"code": excerpt.document["currency"]["code"]}
    return render(request, "invoicing/invoice_draft.html", context)


def _excerpt(shown: DraftStatus, *, first: int) -> Excerpt | None:
    if shown.kept:
        return stored_excerpt(shown.kept, first=first)
    return document_excerpt(shown.document, first=first) if shown.document is not None else None


@require_GET
def invoice_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show an invoice with the rating steps of its lines. `?line=16` sets the first line to show."""
    known = selectors.invoices_with_state_name(Invoice.objects.defer("document"))
    invoice = org_object_get(request, known, pk=pk)
    excerpt = stored_excerpt(invoice, first=first_line(request.GET.get("line")))
    context = _document_context(excerpt) | {
        "invoice": invoice,
        "instructions": provider_of(invoice).instructions(invoice),
        "credit_notes": invoice.credit_notes.all(),
        "returned": balance_returned(invoice),
        "settlements": invoice.settlements.select_related("payment", "credit_note"),
        "api_path": f"/api/v1/invoices/{invoice.pk}",
        "books": excerpt.books,
    }
    return render(request, "invoicing/invoice_detail.html", context)


def _document_context(excerpt: Excerpt) -> dict[str, Any]:
    document = excerpt.document
    lines = [lined(line) for line in document["lines"]]
    return {
        "document": document,
        "excerpt": excerpt,
        "currency": document["currency"],
        "lines": lines,
        "period_start": instant(document["period"]["start"]),
        "period_end": instant(document["period"]["end"]),
        "jobs": _jobs_of(lines),
        "carries": bool(Decimal(document["carried_in"]) or Decimal(document["carried_out"])),
    }


def _jobs_of(lines: list[dict[str, Any]]) -> dict[str, str]:
    leases = {row["lease"] for line in lines for row in line["usage"] if row["lease"]}
    known = Lease.objects.filter(pk__in=leases).values_list("pk", "stage__job_id")
    return {str(lease): str(job) for lease, job in known}


@require_GET
def invoice_file(request: HttpRequest, pk: UUID, kind: str) -> HttpResponse:
    """Download the invoice as PDF, CSV or JSON."""
    invoice = org_object_get(request, Invoice, pk=pk)
    if kind not in {"pdf", "csv", "json"}:
        raise Http404
    return invoice_file_response(invoice, kind)


@require_GET
def credit_note_file(request: HttpRequest, pk: UUID, kind: str) -> HttpResponse:
    """Download the credit note as PDF, CSV or JSON."""
    return credit_note_response(org_object_get(request, CreditNote, pk=pk), kind)


@require_http_methods(["GET", "POST"])
def settings(request: HttpRequest) -> HttpResponse:
    """Show and change the billing address."""
    organisation, now = organisation_get(request, roles=MONEY), timezone.now()
    profile = BillingProfile.objects.filter(organisation=organisation).first()
    known = {name: getattr(profile, name, "") for name in ("legal_name", "address", "tax_id")}
    form = ProfileForm(request.POST if request.method == "POST" else None, initial=known)
    if form.is_bound and form.is_valid():
        services.profile_set(organisation=organisation, actor=principal_get(request).user, now=now, **form.cleaned_data)
        messages.success(request, "Billing address updated.")
        return redirect("invoicing:settings")
    return render(request, "invoicing/settings.html", {"form": form}, status=422 if form.errors else 200)


@require_http_methods(["GET", "POST"])
def payments(request: HttpRequest) -> HttpResponse:
    """Show unpaid invoices to administrators, with a form to record a payment."""
    principal, refusal = platform_admin_check(request), None
    if request.method == "POST":
        try:
            invoice = _waiting(request.POST.get("invoice"))
            form = PaymentForm(request.POST, currencies=[invoice.unit])
            if not form.is_valid():
                faults = " ".join(str(error) for errors in form.errors.values() for error in errors)
                hint = "Enter the amount received and the reference from the bank statement."
                raise Problem(422, "Not recorded", f"{faults} {hint}".strip(), kind="payment-not-recorded")
            services.invoice_mark_paid(
                invoice_id=invoice.id,
                actor=principal.user,
                now=timezone.now(),
                amount=form.cleaned_data["amount"],
                reference=form.cleaned_data["reference"],
                is_overpaid=form.cleaned_data["overpaid"],
            )
        except Problem as problem:
            refusal = problem
        else:
            messages.success(request, f"Payment of invoice {invoice.number} recorded.")
            return redirect("invoicing:payments")
    context = {
        "invoices": selectors.invoices_unpaid(),
        "refusal": refusal,
        "now": timezone.now(),
        "entered": request.POST,
    }
    return render(request, "invoicing/payments.html", context, status=refusal.status if refusal else 200)


def _waiting(value: Any) -> Invoice:
    try:
        return Invoice.objects.get(pk=UUID(str(value)))
    except (ValueError, Invoice.DoesNotExist) as error:
        raise Problem(
            422, "Unknown invoice", "Choose one of the invoices in the list.", kind="invoice-unknown"
        ) from error
