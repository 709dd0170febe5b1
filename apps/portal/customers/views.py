"""The customer pages for administrators: a customer's tax and credits, and actions on an invoice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.access import platform_admin_check
from apps.accounts.models import Organisation
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.invoicing import services
from apps.invoicing.adjustments import credits_left
from apps.invoicing.models import BillingProfile, CreditGrant, Invoice
from apps.invoicing.selectors import invoices_of, invoices_with_state_name
from apps.invoicing.services.credit_lines import credit_lines
from apps.invoicing.services.disputing import balance_returned
from apps.portal.charts import credit_charts
from apps.portal.customers.forms import CloseForm, CreditEndForm, CreditNoteForm, GrantForm, RefundForm, TaxForm
from apps.portal.customers.selectors import balances_prepaid, customers_of, organisations_found, refund_currencies
from apps.portal.customers.services import tax_set
from apps.pricing.amounts import currencies_offered

PER_PAGE = 25


@require_GET
def customer_list(request: HttpRequest) -> HttpResponse:
    """List the organisations with their open amounts and remaining credits. `?q=` searches by name."""
    platform_admin_check(request)
    words = request.GET.get("q", "")[:200].replace("\x00", "")
    page = page_of(request, organisations_found(words), ordering=("name", "pk"), size=PER_PAGE)
    context = {"page": page, "customers": customers_of(list(page.object_list)), "words": words}
    return render(request, "portal/customers/list.html", context)


@require_http_methods(["GET", "POST"])
def customer(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show a customer, with forms to grant or end a credit, refund the balance, and set the tax."""
    principal, now = platform_admin_check(request), timezone.now()
    organisation = get_object_or_404(Organisation, pk=pk)
    profile = BillingProfile.objects.filter(organisation=organisation).first() or BillingProfile(
        organisation=organisation
    )
    submitted, balances = request.POST.get("form", ""), balances_prepaid(organisation)
    forms = _customer_forms(request, submitted, profile, balances, now)
    if submitted in forms and forms[submitted].is_valid():
        given = {"organisation": organisation, "actor": principal.user, "now": now}
        try:
            messages.success(request, ACTIONS[submitted](forms[submitted], given))
            return redirect("portal:customer", pk=pk)
        except Problem as problem:
            forms[submitted].add_error(None, problem.detail)
    context = {
        "customer": organisation,
        "profile": profile,
        "now": now,
        "credits": credits_left(organisation),
        "histories": credit_charts(organisation, now),
        "balances": balances,
        "page": page_of(request, invoices_of(organisation), ordering=("-issued_at", "-id"), size=PER_PAGE),
        "grant_body": {"organisation": str(pk), "amount": "10", "reason": "..."},
        **{f"{name}_form": form for name, form in forms.items()},
    }
    is_invalid = any(form.errors for form in forms.values())
    return render(request, "portal/customers/detail.html", context, status=422 if is_invalid else 200)


def _customer_forms(
    request: HttpRequest, submitted: str, profile: BillingProfile, balances: list[Any], now: datetime
) -> dict[str, Any]:
    data = {name: request.POST if submitted == name else None for name in ACTIONS}
    offered = currencies_offered(now=now)
    return {
        "grant": GrantForm(data["grant"], currencies=offered, auto_id="grant_%s"),
        "end": CreditEndForm(data["end"]),
        "tax": TaxForm(data["tax"]) if data["tax"] else TaxForm.of(profile),
        "refund": RefundForm(data["refund"], currencies=refund_currencies(balances, offered), auto_id="refund_%s"),
    }


def _grant(form: GrantForm, given: dict[str, Any]) -> str:
    values = form.cleaned_data
    services.grant_create(
        amount=values["amount"],
        currency=form.chosen.code,
        reason=values["reason"],
        expires_at=form.expires_at(),
        idempotency_key=f"page:{values['key']}",
        **given,
    )
    return "Credit granted. The credit pays for usage from now on."


def _credit_end(form: CreditEndForm, given: dict[str, Any]) -> str:
    grant = CreditGrant.objects.filter(organisation=given["organisation"], pk=form.cleaned_data["credit"]).first()
    if grant is None:
        raise Problem(422, "Unknown credit", "This customer has no such credit.", kind="credit")
    services.grant_end(grant_id=grant.pk, reason=form.cleaned_data["reason"], actor=given["actor"], now=given["now"])
    return "Credit ended. The credit still pays for usage up to now."


def _tax(form: TaxForm, given: dict[str, Any]) -> str:
    values = form.cleaned_data
    tax_set(scheme=values["tax_scheme"], rate=values["tax_percent"], payment_days=values["payment_days"], **given)
    return "Tax updated. The new tax applies from the next invoice."


def _refund(form: RefundForm, given: dict[str, Any]) -> str:
    values = form.cleaned_data
    services.balance_refund(
        amount=values["amount"],
        currency=form.chosen.code,
        reference=values["reference"],
        idempotency_key=f"page:{values['key']}",
        **given,
    )
    return "Refund recorded. The balance is reduced by the amount of the refund."


# The action of each form of the customer page; returns the message to show.
ACTIONS: dict[str, Callable[[Any, dict[str, Any]], str]] = {
    "grant": _grant,
    "end": _credit_end,
    "tax": _tax,
    "refund": _refund,
}


@require_http_methods(["GET", "POST"])
def customer_invoice(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show an invoice, with forms for voiding, write-off, collection and credit notes."""
    principal, now = platform_admin_check(request), timezone.now()
    invoice = get_object_or_404(invoices_with_state_name(Invoice.objects.select_related("organisation")), pk=pk)
    submitted, lines = request.POST.get("form", ""), credit_lines(invoice)
    note_form = CreditNoteForm(request.POST if submitted == "note" else None, lines=lines, currencies=[invoice.unit])
    close_form = CloseForm(request.POST if submitted == "end" else None, auto_id="end_%s")
    forms: dict[str, CreditNoteForm | CloseForm] = {"note": note_form, "end": close_form}
    form = forms.get(submitted)
    if form is not None and form.is_valid():
        given: dict[str, Any] = {"invoice_id": invoice.pk, "actor": principal.user, "now": now}
        try:
            messages.success(request, _invoice_action(form, given))
            return redirect("portal:customer_invoice", pk=pk)
        except Problem as problem:
            form.add_error(None, problem.detail)
    context = {
        "invoice": invoice,
        "currency": invoice.document["currency"],
        "note_form": note_form,
        "close_form": close_form,
        "rows": [(line, note_form[f"line_{line.number}"] if line.left > 0 else None) for line in lines],
        "is_left": any(line.left > 0 for line in lines),
        "left": note_form.fields["left"].initial,
        "credit_notes": invoice.credit_notes.all(),
        "returned": balance_returned(invoice),
        "settlements": invoice.settlements.select_related("payment", "credit_note"),
        "api_path": f"/api/v1/invoices/{pk}/credit-notes",
    }
    is_invalid = form is not None and bool(form.errors)
    return render(request, "portal/customers/invoice.html", context, status=422 if is_invalid else 200)


def _invoice_action(form: CreditNoteForm | CloseForm, given: dict[str, Any]) -> str:
    reason = form.cleaned_data["reason"]
    if isinstance(form, CreditNoteForm):
        note = services.credit_note_issue(
            parts=form.parts(), reason=reason, expected_left=form.expected_left(), **given
        )
        return f"Credit note {note.number} issued."
    action = form.cleaned_data["action"]
    if action == "void":
        number = services.invoice_void(reason=reason, **given).number
        return f"Invoice {number} voided. A credit note reverses the invoice, and the usage can be invoiced again."
    if action == "write-off":
        return f"Invoice {services.invoice_write_off(reason=reason, **given).number} written off."
    return f"Invoice {services.invoice_collect(**given).number} sent to collection."
