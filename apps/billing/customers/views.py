"""For administrators: customers with their tax and credits, and what may be done with an invoice."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.access import platform_admin_check
from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.billing import services
from apps.billing.adjusting import credits_of
from apps.billing.customers.forms import CreditNoteForm, EndForm, GrantForm, RefundForm, TaxForm
from apps.billing.customers.selectors import customers_of, organisations_found
from apps.billing.customers.services import tax_set
from apps.billing.models import BillingProfile, Invoice
from apps.billing.portal.selectors import burn_down
from apps.billing.portal.views import burn_chart
from apps.billing.services.crediting import credit_lines
from apps.billing.services.settling import balance_of
from apps.pricing.amounts import currencies_offered
from apps.pricing.selectors import book_in_force

PER_PAGE = 25


@require_GET
def customer_list(request: HttpRequest) -> HttpResponse:
    """Every organisation with what is open and what is left of its credits; `?q=` finds by name."""
    platform_admin_check(request)
    words, currency = request.GET.get("q", "")[:200].replace("\x00", ""), book_in_force(at=timezone.now()).currency
    page = Paginator(organisations_found(words), PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "page": page, "customers": customers_of(list(page.object_list), currency=currency), "currency": currency,
        "words": words,
    }  # fmt: skip
    return render(request, "billing/customers/list.html", context)


@require_http_methods(["GET", "POST"])
def customer(request: HttpRequest, pk: UUID) -> HttpResponse:
    """One customer: invoices, credits with their use, tax."""
    principal, now = platform_admin_check(request), timezone.now()
    organisation = Organisation.objects.filter(pk=pk).first()
    if organisation is None:
        raise Http404
    profile = BillingProfile.objects.filter(organisation=organisation).first() or BillingProfile(
        organisation=organisation
    )
    currency, form = book_in_force(at=now).currency, request.POST.get("form", "")
    offered = currencies_offered(now=now)
    grant_form = GrantForm(request.POST if form == "grant" else None, currencies=offered)
    tax_form = TaxForm(request.POST) if form == "tax" else TaxForm.of(profile)
    refund_form = RefundForm(request.POST if form == "refund" else None, currencies=offered)
    given: dict[str, Any] = {"organisation": organisation, "actor": principal.user, "now": now}
    try:
        if form == "grant" and grant_form.is_valid():
            services.grant_create(
                amount=grant_form.cleaned_data["amount"], currency=grant_form.chosen.code,
                reason=grant_form.cleaned_data["reason"],
                expires_at=grant_form.expires_at(), idempotency_key=f"page:{grant_form.cleaned_data['key']}", **given,
            )  # fmt: skip
            messages.success(request, "The credit is granted; the next invoices are less by it.")
            return redirect("billing:customer", pk=pk)
        if form == "tax" and tax_form.is_valid():
            told = tax_form.cleaned_data
            tax_set(scheme=told["tax_scheme"], rate=told["tax_percent"], payment_days=told["payment_days"], **given)
            messages.success(request, "The next invoice is taxed so.")
            return redirect("billing:customer", pk=pk)
        if form == "refund" and refund_form.is_valid():
            _refund(refund_form, given)
            messages.success(request, "It is posted: the balance is less by what went back.")
            return redirect("billing:customer", pk=pk)
    except Problem as refusal:
        {"grant": grant_form, "refund": refund_form}.get(form, tax_form).add_error(None, refusal.detail)
    burn = burn_down(organisation, currency=currency)
    context = {
        "customer": organisation, "profile": profile, "currency": currency, "now": now, "grant_form": grant_form,
        "tax_form": tax_form, "refund_form": refund_form, "credits": credits_of(organisation, currency=currency), "burn": burn,
        "burn_chart": burn_chart(burn, currency, now), "balance": balance_of(organisation.id, currency),
        "page": Paginator(Invoice.objects.filter(organisation=organisation), PER_PAGE).get_page(request.GET.get("page")),
        "grant_body": {"organisation": str(pk), "amount": "10.00", "reason": "..."},
    }  # fmt: skip
    failed = grant_form.errors or tax_form.errors or refund_form.errors
    return render(request, "billing/customers/detail.html", context, status=422 if failed else 200)


def _refund(form: RefundForm, given: dict[str, Any]) -> None:
    told = form.cleaned_data
    services.balance_refund(
        amount=told["amount"], currency=form.chosen.code, reference=told["reference"], idempotency_key=f"page:{told['key']}",
        **given,
    )  # fmt: skip


@require_http_methods(["GET", "POST"])
def customer_invoice(request: HttpRequest, pk: UUID) -> HttpResponse:
    """One invoice: a credit note over all of it or parts, void, write off, collection."""
    principal, now = platform_admin_check(request), timezone.now()
    invoice = Invoice.objects.select_related("organisation").filter(pk=pk).first()
    if invoice is None:
        raise Http404
    lines, form = credit_lines(invoice), request.POST.get("form", "")
    note_form = CreditNoteForm(request.POST if form == "note" else None, lines=lines, currencies=[invoice.unit])
    end_form = EndForm(request.POST if form == "end" else None)
    given: dict[str, Any] = {"invoice_id": invoice.pk, "actor": principal.user, "now": now}
    try:
        if form == "note" and note_form.is_valid():
            note = services.credit_note_issue(parts=note_form.parts(), reason=note_form.cleaned_data["reason"], **given)
            messages.success(request, f"Credit note {note.number} is issued.")
            return redirect("billing:customer_invoice", pk=pk)
        if form == "end" and end_form.is_valid():
            messages.success(request, _end(end_form.cleaned_data["action"], end_form.cleaned_data["reason"], given))
            return redirect("billing:customer_invoice", pk=pk)
    except Problem as refusal:
        (note_form if form == "note" else end_form).add_error(None, refusal.detail)
    context = {
        "invoice": invoice, "currency": invoice.document["currency"], "note_form": note_form, "end_form": end_form,
        "rows": [(line, note_form[f"line_{line.number}"] if line.left > 0 else None) for line in lines],
        "is_left": any(line.left > 0 for line in lines),
        "credit_notes": invoice.credit_notes.all(),
        "settlements": invoice.settlements.select_related("payment", "credit_note"),
        "api_path": f"/api/v1/invoices/{pk}/credit-notes",
    }  # fmt: skip
    failed = note_form.errors or end_form.errors
    return render(request, "billing/customers/invoice.html", context, status=422 if failed else 200)


def _end(action: str, reason: str, given: dict[str, Any]) -> str:
    """Do what was chosen; what to tell."""
    if action == "void":
        number = services.invoice_void(reason=reason, **given).number
        return f"Invoice {number} is void; a credit note takes it back, and its usage may be invoiced again."
    if action == "write-off":
        return f"What was open of invoice {services.invoice_write_off(reason=reason, **given).number} is written off."
    return f"Invoice {services.invoice_collect(**given).number} is given to collection."
