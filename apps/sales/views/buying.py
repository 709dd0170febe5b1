"""The page of buying limits, for administrators."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.access import platform_admin_required, principal_get
from apps.accounts.models import Organisation
from apps.accounts.paging import page_of
from apps.pricing.selectors import book_in_force
from apps.sales import services
from apps.sales.templatetags.sales import plain_number, share_percent

PAGE = 50


def _share(**options: Any) -> forms.DecimalField:
    return forms.DecimalField(min_value=Decimal("0.01"), max_value=Decimal(100), decimal_places=2, **options)


class RulesForm(forms.Form):
    """A form for the general limits."""

    newcomer_credit = forms.DecimalField(
        label="Credit limit for new organisations",
        min_value=Decimal(0),
        max_digits=20,
        required=False,
        help_text="Applies until the organisation has a payment method or is approved. Leave empty for no limit.",
    )
    pool_share = _share(
        label="Share of a pool, in %",
        help_text="The maximum share of a pool's device time that one organisation may reserve.",
    )
    horizon_days = forms.IntegerField(label="Period for this share, in days", min_value=1, max_value=3660)


class StandingForm(forms.Form):
    """A form for the limits of one organisation. An empty field means that the general limit applies."""

    is_approved = forms.BooleanField(label="Approved", required=False)
    credit = forms.DecimalField(label="Credit limit", min_value=Decimal(0), max_digits=20, required=False)
    pool_share = _share(label="Share of a pool, in %", required=False)


@platform_admin_required
@require_http_methods(["GET", "POST"])
def buying(request: HttpRequest) -> HttpResponse:
    """Show and set the general limits."""
    form = RulesForm(request.POST or None, initial=_initial())
    if request.method == "POST" and form.is_valid():
        services.buying_rules_set(
            newcomer_credit=form.cleaned_data["newcomer_credit"],
            pool_share=form.cleaned_data["pool_share"] / 100,
            horizon_days=form.cleaned_data["horizon_days"],
            principal=principal_get(request),
            now=timezone.now(),
        )
        messages.success(request, "Saved. The limits apply to every quote that is accepted from now on.")
        return redirect("sales:buying")
    return _page(request, form, refused=None)


def _page(request: HttpRequest, form: RulesForm, *, refused: tuple[Organisation, StandingForm] | None) -> HttpResponse:
    rows = Organisation.objects.select_related("standing").order_by("name", "id")
    search = request.GET.get("q", "").replace("\x00", "").strip()
    rows = rows.filter(name__icontains=search) if search else rows
    context = {
        "form": form,
        "page": page_of(request, rows, ordering=("name", "id"), size=PAGE),
        "search": search,
        "currency": book_in_force(at=timezone.now()).currency,
        "refused": refused[0] if refused else None,
        "refused_form": refused[1] if refused else None,
    }
    return render(request, "sales/buying.html", context, status=422 if form.errors or refused else 200)


def _initial() -> dict[str, Any]:
    rules = services.rules_now()
    return {
        "newcomer_credit": plain_number(rules.newcomer_credit),
        "pool_share": share_percent(rules.pool_share),
        "horizon_days": rules.horizon.days,
    }


@platform_admin_required
@require_POST
def standing(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Approve an organisation or set its own limits."""
    organisation = Organisation.objects.filter(pk=pk).first()
    if organisation is None:
        raise Http404
    form = StandingForm(request.POST, auto_id="standing_%s")
    if not form.is_valid():
        return _page(request, RulesForm(initial=_initial()), refused=(organisation, form))
    share = form.cleaned_data["pool_share"]
    services.standing_set(
        organisation=organisation,
        is_approved=form.cleaned_data["is_approved"],
        credit=form.cleaned_data["credit"],
        pool_share=None if share is None else share / 100,
        principal=principal_get(request),
        now=timezone.now(),
    )
    messages.success(request, f"Saved for {organisation.name}.")
    return redirect("sales:buying")
