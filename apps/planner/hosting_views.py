"""The pages about rented and owned machines: imported files, and comparisons with a plan."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.models import Organisation
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.accounts.roles import ENGINEERING
from apps.planner import hosting_selectors as selectors
from apps.planner import hosting_services as services
from apps.planner.hosting import measurement, pricelist
from apps.planner.hosting.formats import SAMPLE
from apps.planner.hosting_comparison import comparison_of
from apps.planner.hosting_forms import ChangeForm, MachineForm, MeasurementForm, PriceListForm, midnight, names_of
from apps.planner.hosting_wording import as_csv, document, group_rows, measured_row
from apps.planner.models import OwnMachine, PlaceMeasurement, Plan, PriceListFile

ROWS = 50
FORMS: dict[str, type[Form]] = {
    "measurement_form": MeasurementForm,
    "list_form": PriceListForm,
    "machine_form": MachineForm,
}


@require_GET
def places(request: HttpRequest) -> HttpResponse:
    return _places(request, organisation_get(request))


def _places(
    request: HttpRequest,
    organisation: Organisation,
    *,
    bound: dict[str, Form] | None = None,
    refusal: Problem | None = None,
) -> HttpResponse:
    now = timezone.now()
    forms = {name: kind() for name, kind in FORMS.items()}
    context = {
        **forms,
        **(bound or {}),
        "measurements": selectors.measurements_shown(organisation, now=now),
        "price_lists": selectors.pricelists_shown(organisation, now=now),
        "machines": selectors.machines_list(organisation),
        "refusal": refusal,
    }
    status = refusal.status if refusal else 422 if bound else 200
    return render(request, "planner/places.html", context, status=status)


def _imported(
    request: HttpRequest, name: str, make: Callable[[Organisation, Any], PlaceMeasurement | PriceListFile | OwnMachine]
) -> HttpResponse:
    organisation = organisation_get(request, roles=ENGINEERING)
    form = FORMS[name](request.POST, request.FILES)
    if not form.is_valid():
        return _places(request, organisation, bound={name: form})
    try:
        row = make(organisation, form)
    except Problem as problem:
        return _places(request, organisation, bound={name: form}, refusal=problem)
    messages.success(request, f"Saved: {row}.")
    return redirect("planner:places")


@require_POST
def measurement_import(request: HttpRequest) -> HttpResponse:
    def make(organisation: Organisation, form: MeasurementForm) -> PlaceMeasurement:
        stated = form.cleaned_data
        return services.measurement_import(
            organisation=organisation,
            data=stated["file"].read(measurement.BYTES_MAX + 1),
            machines=names_of(stated["machines"]),
            expires_at=midnight(stated["expires"]),
            actor=principal_get(request).user,
            now=timezone.now(),
        )

    return _imported(request, "measurement_form", make)


@require_POST
def pricelist_import(request: HttpRequest) -> HttpResponse:
    def make(organisation: Organisation, form: PriceListForm) -> PriceListFile:
        stated = form.cleaned_data
        return services.pricelist_import(
            organisation=organisation,
            data=stated["file"].read(pricelist.BYTES_MAX + 1),
            kind=stated["kind"],
            source=stated["source"],
            as_of=stated["as_of"],
            filename=stated["file"].name or "",
            expires_at=midnight(stated["expires"]),
            actor=principal_get(request).user,
            now=timezone.now(),
        )

    return _imported(request, "list_form", make)


@require_POST
def machine_add(request: HttpRequest) -> HttpResponse:
    def make(organisation: Organisation, form: MachineForm) -> OwnMachine:
        return services.machine_add(
            organisation=organisation, machine=form.facts(), actor=principal_get(request).user, now=timezone.now()
        )

    return _imported(request, "machine_form", make)


@require_http_methods(["GET", "POST"])
def measurement_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show a measurement. A POST changes the machine names or shortens the validity."""
    row = _one(request, PlaceMeasurement, pk)
    form = ChangeForm(
        request.POST or None, initial={"machines": ", ".join(row.machines), "expires": row.expires_at.date()}
    )
    refusal: Problem | None = None
    if request.method == "POST" and form.is_valid():
        stated = form.cleaned_data
        ends = midnight(stated["expires"])
        try:
            services.measurement_change(
                measurement=row,
                machines=names_of(stated["machines"]) or [],
                expires_at=None if ends is None or ends.date() == row.expires_at.date() else ends,
                actor=principal_get(request).user,
                now=timezone.now(),
            )
            return redirect("planner:measurement_detail", pk=pk)
        except Problem as problem:
            refusal = problem
    now = timezone.now()
    read = measurement.measurement_of(row.document, now=now)
    lines = [measured_row(one) for one in read.rows]
    context = {"row": row, "lines": lines, "form": form, "refusal": refusal, "expired": row.is_expired(now=now)}
    return render(request, "planner/place_measurement.html", context, status=_status(form, refusal))


@require_http_methods(["GET", "POST"])
def pricelist_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show a price list. A POST shortens the validity."""
    row = _one(request, PriceListFile, pk)
    form = ChangeForm(request.POST or None, initial={"expires": row.expires_at.date()})
    refusal: Problem | None = None
    ends = midnight(form.cleaned_data["expires"]) if form.is_valid() else None
    if form.is_valid() and ends is None:
        form.add_error("expires", "Enter a date.")
    if ends is not None:
        actor, now = principal_get(request).user, timezone.now()
        try:
            services.pricelist_change(price_list=row, expires_at=ends, actor=actor, now=now)
            return redirect("planner:pricelist_detail", pk=pk)
        except Problem as problem:
            refusal = problem
    page = page_of(request, row.prices.all(), ordering=("line", "id"), size=ROWS)
    context = {
        "row": row,
        "page": page,
        "form": form,
        "refusal": refusal,
        "expired": row.is_expired(now=timezone.now()),
    }
    return render(request, "planner/price_list.html", context, status=_status(form, refusal))


def _one(request: HttpRequest, kind: Any, pk: UUID) -> Any:
    return org_object_get(request, kind, pk=pk, **({"roles": ENGINEERING} if request.method == "POST" else {}))


def _status(form: Form, refusal: Problem | None) -> int:
    return refusal.status if refusal else 422 if form.is_bound and form.errors else 200


@require_POST
def place_remove(request: HttpRequest, pk: UUID, kind: type[Any]) -> HttpResponse:
    """Remove a measurement, a price list or a machine. `kind` is the model class."""
    row = org_object_get(request, kind, roles=ENGINEERING, pk=pk)
    services.place_remove(place=row, actor=principal_get(request).user, now=timezone.now())
    messages.success(request, f"Removed: {row}.")
    return redirect("planner:places")


@require_GET
def sample_csv(request: HttpRequest) -> HttpResponse:
    """Download a template for a price list."""
    organisation_get(request)
    return _file(SAMPLE, "text/csv", "prices.csv")


@require_GET
def plan_places(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Compare a plan with rented and owned machines."""
    plan = org_object_get(request, Plan.objects.select_related("model_version__model", "organisation"), pk=pk)
    comparison = comparison_of(plan, now=timezone.now())
    groups = [group_rows(group, comparison.items) for group in comparison.groups]
    context = {
        "plan": plan,
        "comparison": comparison,
        "groups": groups,
        "several": any(group["currency"] != comparison.currency for group in groups),
        "has_others": any(group["has_others"] for group in groups),
    }
    return render(request, "planner/plan_places.html", context)


@require_GET
def plan_places_file(request: HttpRequest, pk: UUID, kind: str) -> HttpResponse:
    """Download the comparison as CSV or JSON."""
    plan = org_object_get(request, Plan, pk=pk)
    if kind not in ("csv", "json"):
        raise Http404
    now = timezone.now()
    comparison = comparison_of(plan, now=now)
    if kind == "csv":
        return _file(as_csv(comparison), "text/csv", f"places-{plan.pk}.csv")
    return _file(
        json.dumps(document(plan, comparison, now=now), indent=1), "application/json", f"places-{plan.pk}.json"
    )


def _file(content: str, kind: str, name: str) -> HttpResponse:
    response = HttpResponse(content, content_type=f"{kind}; charset=utf-8" if kind == "text/csv" else kind)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
