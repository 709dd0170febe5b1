"""The contract pages."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.accounts.roles import BUYING, ENGINEERING
from apps.figures import money_exact_format
from apps.pricing.rating import decimal_text
from apps.pricing.rating.decimals import subtract
from apps.sales import selectors, services
from apps.sales.ending_cost import ending_of
from apps.sales.filters import contracts_filter, filters_read, filters_unknown
from apps.sales.late_cancellation import late_term
from apps.sales.models import Contract, ContractState
from apps.sales.revising import contract_plan_again
from apps.sales.revision_models import ContractReview
from apps.sales.snapshots import snapshot_of_line
from apps.sales.usage_days import day_read, usage_chart, usage_day_rows, usage_days, usage_total
from apps.sales.views.quotes import PER_PAGE, lined, list_context
from apps.timetable.selectors import windows_of

ROWS_PER_PAGE = 50


@require_GET
def contract_list(request: HttpRequest) -> HttpResponse:
    """List the organisation's contracts, newest first."""
    organisation = organisation_get(request)
    filters = filters_read(request.GET, states=tuple(ContractState.values))
    found = contracts_filter(selectors.contracts_of(organisation), filters)
    page = page_of(request, found, ordering=("-accepted_at", "-id"), size=PER_PAGE)
    usages = selectors.contract_usages(list(page))
    rows = [{"contract": contract, "usage": usages[contract.id]} for contract in page]
    unknown = filters_unknown(request.GET, filters, states=ContractState.choices, rows="contracts")
    context = {"page": page, "rows": rows, **list_context(organisation, filters), "states": ContractState.choices}
    return render(request, "sales/contract_list.html", context | {"unknown": unknown})


@require_GET
def contract_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show one contract."""
    return _detail(request, pk)


def _detail(request: HttpRequest, pk: UUID, *, naming: dict[str, Any] | None = None) -> HttpResponse:
    contract = org_object_get(
        request, Contract.objects.select_related("pool", "quote__amends", "accepted_by", "organisation"), pk=pk
    )
    usage = selectors.contract_usage(contract)
    now = timezone.now()
    is_open = contract.state == ContractState.ACTIVE and now < contract.ends_at
    ending = ending_of(contract, now=now) if is_open else None
    terms = {snapshot_of_line(line).digest: lined(line) for line in contract.terms["lines"]}
    context = {
        "contract": contract,
        "usage": usage,
        "lines": [{"usage": line, "terms": terms[line.program_digest]} for line in usage.lines],
        "minimum": lined(contract.terms["minimum"]) if contract.minimum or usage.minimum else None,
        "minimum_difference": subtract(usage.minimum, contract.minimum),
        "price_class": selectors.contract_class(contract),
        "windows": windows_of(contract.id),
        **_usage_by_day(request, contract),
        "amended_by": Contract.objects.filter(quote__amends=contract).first(),
        "amends": contract.quote.amends,
        "is_open": is_open,
        "review": ContractReview.objects.filter(contract=contract, proposed__isnull=False).first() if is_open else None,
        "ending": ending,
        "at_most": decimal_text(ending.charge) if ending else "0",
        "late": late_term(contract.terms),
        "api_path": f"/api/v1/contracts/{contract.pk}",
        "now": now,
        "naming": naming,
    }
    return render(request, "sales/contract_detail.html", context, status=naming["refusal"].status if naming else 200)


def _usage_by_day(request: HttpRequest, contract: Contract) -> dict[str, Any]:
    zone = contract.organisation.time_zone
    days, day = usage_days(contract, zone=zone), day_read(request.GET.get("day", ""))
    rows = None
    if day is not None:
        found = usage_day_rows(contract, day, zone=zone)
        rows = page_of(request, found, ordering=("-occurred_from", "-id"), size=ROWS_PER_PAGE)
    return {
        "days": days,
        "days_total": usage_total(days),
        "usage_chart": usage_chart(days, contract.currency),
        "day": day,
        "day_text": day.isoformat() if day else "",
        "day_rows": rows,
        "zone": zone,
    }


@require_POST
def contract_plan(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Plan the remainder of the contract again, and show the page of the new plan."""
    contract = org_object_get(request, Contract.objects.select_related("pool"), roles=ENGINEERING, pk=pk)
    try:
        plan = contract_plan_again(contract=contract, actor=principal_get(request).user, now=timezone.now())
    except Problem as refusal:
        messages.error(request, refusal.detail)
        return redirect("sales:contract_detail", pk=pk)
    return redirect("planner:plan_detail", pk=plan.pk)


@require_POST
def contract_rename(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Set the contract's name."""
    contract, typed = org_object_get(request, Contract, roles=ENGINEERING, pk=pk), request.POST.get("name", "")
    try:
        services.contract_rename(
            contract_id=contract.id,
            organisation=contract.organisation,
            name=typed,
            actor=principal_get(request).user,
            now=timezone.now(),
        )
    except Problem as refusal:
        return _detail(request, pk, naming={"typed": typed, "refusal": refusal})
    messages.success(request, "Name saved.")
    return redirect("sales:contract_detail", pk=pk)


@require_POST
def contract_end(request: HttpRequest, pk: UUID) -> HttpResponse:
    """End a contract early."""
    contract = org_object_get(request, Contract, roles=BUYING, pk=pk)
    before = selectors.contract_usage(contract).actual
    try:
        services.contract_end(
            contract_id=contract.id,
            organisation=contract.organisation,
            actor=principal_get(request).user,
            now=timezone.now(),
            at_most=_shown(request.POST.get("at_most", "0")),
        )
    except Problem as refusal:
        messages.error(request, refusal.detail)
    else:
        charged = subtract(selectors.contract_usage(contract).actual, before)
        cost = money_exact_format(charged, contract.terms["currency"])
        said = f"Ending the contract cost {cost}." if charged else "There was no charge for ending the contract."
        messages.success(request, f"Ended. The remaining capacity and the rest of the hold are released. {said}")
    return redirect("sales:contract_detail", pk=contract.pk)


def _shown(text: str) -> Decimal:
    # If the form does not state the cost, the contract can only be ended free of charge.
    try:
        value = Decimal(text) if len(text) <= 80 else Decimal(0)
    except InvalidOperation:
        return Decimal(0)
    return value if value.is_finite() and value > 0 else Decimal(0)
