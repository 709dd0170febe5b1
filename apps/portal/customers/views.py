"""For administrators: customers with their tax and credits, and what may be done with an invoice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.access import platform_admin_check
from apps.accounts.models import Organisation
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.invoicing import services
from apps.invoicing.adjusting import credits_left
from apps.invoicing.models import BillingProfile, CreditGrant, Invoice
from apps.invoicing.selectors import invoices_called, invoices_of
from apps.invoicing.services.crediting import credit_lines
from apps.invoicing.services.disputing import balance_returned
from apps.portal.charts import burn_charts
from apps.portal.customers.forms import CreditEndForm, CreditNoteForm, EndForm, GrantForm, RefundForm, TaxForm
from apps.portal.customers.selectors import balances_prepaid, currencies_returned, customers_of, organisations_found
from apps.portal.customers.services import tax_set
from apps.pricing.amounts import currencies_offered

PER_PAGE = 25


@require_GET
def customer_list(request: HttpRequest) -> HttpResponse:
    """Every organisation with what is open and what is left of its credits, in each currency; `?q=` finds by name."""
    platform_admin_check(request)
    words = request.GET.get("q", "")[:200].replace("\x00", "")
    page = page_of(request, organisations_found(words), ordering=("name", "pk"), size=PER_PAGE)
    context = {"page": page, "customers": customers_of(list(page.object_list)), "words": words}
    return render(request, "portal/customers/list.html", context)


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
    sent, offered, kept = request.POST.get("form", ""), currencies_offered(now=now), balances_prepaid(organisation)
    data = {name: request.POST if sent == name else None for name in ACTS}
    shown: dict[str, Any] = {
        "grant": GrantForm(data["grant"], currencies=offered, auto_id="grant_%s"),
        "end": CreditEndForm(data["end"]),
        "tax": TaxForm(data["tax"]) if data["tax"] else TaxForm.of(profile),
        "refund": RefundForm(data["refund"], currencies=currencies_returned(kept, offered), auto_id="refund_%s"),
    }
    if sent in shown and shown[sent].is_valid():
        try:
            messages.success(
                request, ACTS[sent](shown[sent], {"organisation": organisation, "actor": principal.user, "now": now})
            )
            return redirect("portal:customer", pk=pk)
        except Problem as refusal:
            shown[sent].add_error(None, refusal.detail)
    context = {
        "customer": organisation,
        "profile": profile,
        "now": now,
        "credits": credits_left(organisation),
        "burns": burn_charts(organisation, now),
        "balances": kept,
        "page": page_of(request, invoices_of(organisation), ordering=("-issued_at", "-id"), size=PER_PAGE),
        "grant_body": {"organisation": str(pk), "amount": "10", "reason": "..."},
        **{f"{name}_form": form for name, form in shown.items()},
    }
    failed = any(form.errors for form in shown.values())
    return render(request, "portal/customers/detail.html", context, status=422 if failed else 200)


def _grant(form: GrantForm, given: dict[str, Any]) -> str:
    told = form.cleaned_data
    services.grant_create(
        amount=told["amount"],
        currency=form.chosen.code,
        reason=told["reason"],
        expires_at=form.expires_at(),
        idempotency_key=f"page:{told['key']}",
        **given,
    )
    return "The credit is granted; it pays for use from now on."


def _credit_end(form: CreditEndForm, given: dict[str, Any]) -> str:
    grant = CreditGrant.objects.filter(organisation=given["organisation"], pk=form.cleaned_data["credit"]).first()
    if grant is None:
        raise Problem(422, "No such credit", "This customer has no such credit.", kind="credit")
    services.grant_end(grant_id=grant.pk, reason=form.cleaned_data["reason"], actor=given["actor"], now=given["now"])
    return "The credit is ended; what invoices used of it, or will use for until now, stays."


def _tax(form: TaxForm, given: dict[str, Any]) -> str:
    told = form.cleaned_data
    tax_set(scheme=told["tax_scheme"], rate=told["tax_percent"], payment_days=told["payment_days"], **given)
    return "The next invoice is taxed so."


def _refund(form: RefundForm, given: dict[str, Any]) -> str:
    told = form.cleaned_data
    services.balance_refund(
        amount=told["amount"],
        currency=form.chosen.code,
        reference=told["reference"],
        idempotency_key=f"page:{told['key']}",
        **given,
    )
    return "It is posted: the balance is less by what went back."


# What each form of the page does; it answers with what to tell.
ACTS: dict[str, Callable[[Any, dict[str, Any]], str]] = {
    "grant": _grant,
    "end": _credit_end,
    "tax": _tax,
    "refund": _refund,
}


@require_http_methods(["GET", "POST"])
def customer_invoice(request: HttpRequest, pk: UUID) -> HttpResponse:
    """One invoice: a credit note over all of it or parts, void, write off, collection."""
    principal, now = platform_admin_check(request), timezone.now()
    invoice = invoices_called(Invoice.objects.select_related("organisation").filter(pk=pk)).first()
    if invoice is None:
        raise Http404
    lines, form = credit_lines(invoice), request.POST.get("form", "")
    note_form = CreditNoteForm(request.POST if form == "note" else None, lines=lines, currencies=[invoice.unit])
    end_form = EndForm(request.POST if form == "end" else None, auto_id="end_%s")
    given: dict[str, Any] = {"invoice_id": invoice.pk, "actor": principal.user, "now": now}
    try:
        if form == "note" and note_form.is_valid():
            note = services.credit_note_issue(parts=note_form.parts(), reason=note_form.cleaned_data["reason"], **given)
            messages.success(request, f"Credit note {note.number} is issued.")
            return redirect("portal:customer_invoice", pk=pk)
        if form == "end" and end_form.is_valid():
            messages.success(request, _end(end_form.cleaned_data["action"], end_form.cleaned_data["reason"], given))
            return redirect("portal:customer_invoice", pk=pk)
    except Problem as refusal:
        (note_form if form == "note" else end_form).add_error(None, refusal.detail)
    context = {
        "invoice": invoice,
        "currency": invoice.document["currency"],
        "note_form": note_form,
        "end_form": end_form,
        "rows": [(line, note_form[f"line_{line.number}"] if line.left > 0 else None) for line in lines],
        "is_left": any(line.left > 0 for line in lines),
        "credit_notes": invoice.credit_notes.all(),
        "returned": balance_returned(invoice),
        "settlements": invoice.settlements.select_related("payment", "credit_note"),
        "api_path": f"/api/v1/invoices/{pk}/credit-notes",
    }
    failed = note_form.errors or end_form.errors
    return render(request, "portal/customers/invoice.html", context, status=422 if failed else 200)


def _end(action: str, reason: str, given: dict[str, Any]) -> str:
    """Do what was chosen; what to tell."""
    if action == "void":
        number = services.invoice_void(reason=reason, **given).number
        return f"Invoice {number} is void; a credit note takes it back, and its usage may be invoiced again."
    if action == "write-off":
        return f"What was open of invoice {services.invoice_write_off(reason=reason, **given).number} is written off."
    return f"Invoice {services.invoice_collect(**given).number} is given to collection."
