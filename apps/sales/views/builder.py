"""The quote builder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.roles import ENGINEERING
from apps.compilation.models import Precision, Program
from apps.planner.models import Plan
from apps.pricing.grid import tariff_grid
from apps.pricing.rating import PriceBookDocument, class_default, classes_ordered
from apps.pricing.rating.decimals import AMOUNT_PLACES, decimal_of
from apps.pricing.selectors import book_in_force, document_of
from apps.sales import services
from apps.sales.amending_controls import amending_controls, amending_subject
from apps.sales.builder import (
    DEFAULT_VOLUME,
    STEPS,
    UNIT_NAMES,
    Controls,
    Subject,
    box_check,
    controls_read,
    pools_missing,
    pools_of,
    typed_address,
)
from apps.sales.hour_grid import priced_hours
from apps.sales.models import Contract, FormName
from apps.sales.plans import plan_lines_get, plan_until_check
from apps.sales.price_marks import CHANGED, PRICE_FIELD, price_check, price_mark
from apps.sales.services import Offer, Quota, QuoteLine
from apps.sales.start_times import start_times_cheapest
from apps.sales.volumes import MOST_TERA_OPERATIONS, forms_offered

NOT_OFFERED = "The price book in force does not offer this choice."


@require_http_methods(["GET", "POST"])
def quote_new(request: HttpRequest) -> HttpResponse:
    """Show the builder. POST creates the displayed quote."""
    organisation, now = organisation_get(request, roles=ENGINEERING), timezone.now()
    sent = request.POST if request.method == "POST" else request.GET
    subject = _subject(request, sent)
    data = _first_controls(sent, organisation, subject) if request.method == "GET" else sent
    context = _context(data, organisation, subject, now, principal_get(request).user)
    if request.method == "POST" and context["refusal"] is None:
        try:
            box_check(sent, context["controls"])
            quote = _create(request, organisation, context["controls"], now)
        except Problem as problem:
            context |= {"refusal": problem, "is_on_top": True}  # shown at the top of the page
            if problem.kind != CHANGED:  # else the page is shown again, with the price that holds now
                context["offer"] = None
        else:
            return redirect("sales:quote_detail", pk=quote.pk)
    context |= _choices(organisation, subject)
    refusal = context["refusal"]
    return render(request, "sales/quote_new.html", context, status=refusal.status if refusal and request.POST else 200)


@require_GET
def quote_preview(request: HttpRequest) -> HttpResponse:
    """Show the price for the present controls."""
    organisation, now = organisation_get(request, roles=ENGINEERING), timezone.now()
    context = _context(request.GET, organisation, _subject(request, request.GET), now, principal_get(request).user)
    response = render(request, "sales/_offer.html", {**context, "is_update": True})
    response["HX-Replace-Url"] = f"{reverse('sales:quote_new')}?{context['address']}"
    return response


def _subject(request: HttpRequest, data: Mapping[str, Any]) -> Subject:
    program, plan, amends = (_uuid(data.get(name)) for name in ("program", "plan", "amends"))
    contract, found = None, None
    if amends is not None:
        contract = org_object_get(request, Contract.objects.select_related("pool"), roles=ENGINEERING, pk=amends)
    if program is not None:
        related = Program.objects.select_related("model_version__model__project")
        found = org_object_get(request, related, roles=ENGINEERING, pk=program)
    if plan is not None:
        org_object_get(request, Plan, roles=ENGINEERING, pk=plan)
    is_quota = found is None and plan is None and data.get("form") == FormName.QUOTA
    subject = Subject(found, plan, is_quota, contract)
    return amending_subject(subject) if contract is not None and not subject.any else subject


def _uuid(value: Any) -> UUID | None:
    if not value:
        return None
    try:
        return UUID(str(value))
    except ValueError as error:
        raise Http404 from error


def _choices(organisation: Organisation, subject: Subject) -> dict[str, Any]:
    programs = Program.objects.filter(organisation=organisation).select_related("model_version__model")
    named = str(subject.program.pk) if subject.program else "<program id>"
    body = (
        {"quota": {"precision": "float32", "tera_operations": 1000}}
        if subject.is_quota
        else {"lines": [{"program": named, "executions": 1_000_000}]}
    )
    return {
        "programs": programs.order_by("model_version__model__name", "target", "-created_at"),
        "subject": subject,
        "steps": STEPS,
        "step_last": len(STEPS) - 1,
        "most": MOST_TERA_OPERATIONS if subject.is_quota else STEPS[-1],
        "pools": pools_of(subject),
        "pools_missing": pools_missing(subject),
        "precisions": Precision.choices,
        "units": UNIT_NAMES.items(),
        "api_body": {**body, "klass": "standard", "pool": "lpu-a"},
    }


def _context(
    data: Mapping[str, Any], organisation: Organisation, subject: Subject, now: datetime, actor: User | None
) -> dict[str, Any]:
    context: dict[str, Any] = {
        "organisation": organisation,
        "now": now,
        "refusal": None,
        "offer": None,
        "controls": None,
        "subject": subject,
        "address": typed_address(data),
        "typed": {"volume": data.get("volume", DEFAULT_VOLUME), "rows": [], "name": data.get("name", "")},
    }
    try:
        book = document_of(book_in_force(at=now))
        context |= _offered(book)
        controls, refusal = _controls(data, organisation, subject, class_default(book), now)
        context |= {"controls": controls, "typed": _typed(data, controls)}
        if refusal is not None:
            raise refusal
        context["address"] = controls.address
        if subject.any:
            offer, controls = _offer(organisation, controls, now)
            context |= {"offer": offer, "controls": controls, **_shown(offer, controls, _previous(data))}
            context["refused"] = services.offer_refusals(
                organisation=organisation, offer=offer, amends=subject.amends, actor=actor, now=now
            )
            context["is_impossible"] = any(one.kind == "window" for one in context["refused"])
            context["hours"] = priced_hours(_grid(organisation, book, now), offer.starts)
    except Problem as problem:
        context["refusal"] = problem
    return context


def _offered(book: PriceBookDocument) -> dict[str, Any]:
    classes, forms = classes_ordered(book), forms_offered(book)
    missing = [one for one in classes if not one.offered]
    return {
        "classes": classes,
        "classes_missing": [{"title": one.title, "reason": f"{one.promise} {NOT_OFFERED}"} for one in missing],
        "forms": forms,
        "forms_missing": [
            {"title": one["title"], "reason": f"{one['means']} {NOT_OFFERED}"} for one in forms if not one["offered"]
        ],
    }


def _controls(
    data: Mapping[str, Any], organisation: Organisation, subject: Subject, klass: str, now: datetime
) -> tuple[Controls, Problem | None]:
    try:
        return controls_read(data, organisation=organisation, subject=subject, klass=klass, now=now), None
    except Problem as refusal:
        if refusal.kind != "volume":
            raise
        others = {name: data.get(name) for name in data if not name.startswith("volume")}
        return controls_read(others, organisation=organisation, subject=subject, klass=klass, now=now), refusal


def _typed(data: Mapping[str, Any], controls: Controls) -> dict[str, Any]:
    rows = [{**row, "volume": data.get(row["name"], row["volume"])} for row in controls.rows]
    return {"volume": data.get("volume", controls.volume), "rows": rows, "name": controls.name}


def _grid(organisation: Organisation, book: PriceBookDocument, now: datetime) -> Any:
    return tariff_grid(book=book, zone=organisation.time_zone, now=now)


def _first_controls(data: QueryDict, organisation: Organisation, subject: Subject) -> Mapping[str, Any]:
    if any(name.startswith("volume") and data.get(name) for name in data):
        return data
    if subject.amends is not None:
        return {**amending_controls(subject), **data.dict()}
    if subject.plan_id is None:
        return data
    try:
        planned = plan_lines_get(organisation=organisation, plan_id=subject.plan_id, items=None)
    except Problem:
        return data  # the page shows the refusal when it prices the quote
    until = {"end": planned.until.isoformat()} if planned.until else {}
    return {"volume": planned.items, "klass": planned.klass, **until, **data.dict()}


def _offer(organisation: Organisation, controls: Controls, now: datetime) -> tuple[Offer, Controls]:
    asked, controls = _asked(organisation, controls, now)
    return services.offer_make(organisation=organisation, now=now, **asked), controls


def _create(request: HttpRequest, organisation: Organisation, controls: Controls, now: datetime) -> Any:
    asked, controls = _asked(organisation, controls, now)
    with transaction.atomic():  # roll back a quote at another price than the page showed
        quote = services.quote_create(
            organisation=organisation,
            plan_id=controls.subject.plan_id,
            name=controls.name,
            actor=principal_get(request).user,
            now=now,
            **asked,
        )
        price_check(str(request.POST.get(PRICE_FIELD) or ""), quote)
    return quote


def _asked(organisation: Organisation, controls: Controls, now: datetime) -> tuple[dict[str, Any], Controls]:
    lines, controls = _lines(organisation, controls, now)
    return {
        "lines": lines,
        "klass": controls.klass,
        "pool": controls.pool,
        "window": controls.window,
        "form": controls.volume_form,
        "amends": controls.subject.amends,
        "measured": controls.measured,
    }, controls


def _lines(organisation: Organisation, controls: Controls, now: datetime) -> tuple[list[QuoteLine] | Quota, Controls]:
    subject = controls.subject
    if subject.plan_id is not None:
        planned = plan_lines_get(organisation=organisation, plan_id=subject.plan_id, items=controls.volume)
        plan_until_check(planned.until, end=controls.end, now=now)
        return planned.lines, replace(controls, pool=controls.pool or planned.pool)
    if controls.pool is None:
        raise Problem(409, "No pool", "No pool can run this program at present. Ask the administrator.", kind="no-pool")
    if subject.several:
        return [QuoteLine(program, count) for program, count in controls.shares if count], controls
    if subject.program is None:
        return Quota(controls.precision, controls.volume), controls
    return [QuoteLine(subject.program, controls.volume)], controls


def _previous(data: Mapping[str, Any]) -> Decimal | None:
    try:
        return decimal_of(data.get("previous"), places=AMOUNT_PLACES)  # refuses exponents
    except ValueError:
        return None


def _shown(offer: Offer, controls: Controls, previous: Decimal | None) -> dict[str, Any]:
    net, document, window = offer.priced.worst, offer.document, offer.priced.window
    changed, code = previous is not None and previous != net and previous > 0, document["currency"]["code"]
    return {
        "document": document,
        "make": [*controls.hidden, (PRICE_FIELD, price_mark(net, code))],
        "previous": previous if changed else None,
        "change": Fraction(net) / Fraction(previous) - 1 if changed and previous is not None else None,
        "alternatives": [
            {
                **one,
                "saving": 1 - Fraction(one["share"]),
                "hidden": [
                    *controls.starting(one["klass"], window.start, window.end).hidden,
                    (PRICE_FIELD, price_mark(Decimal(one["amount"]), code)),
                ],
            }
            for one in document["alternatives"]
        ],
        "starts": [
            {
                "start": one,
                "hidden": [
                    *controls.starting(one.klass, one.hour, one.window_end).hidden,
                    (PRICE_FIELD, price_mark(one.amount, code)),
                ],
            }
            for one in start_times_cheapest(offer.starts, zone=controls.zone)
        ],
        "slots": document["reservation"],
        "amendment": document.get("amends"),
        "is_measurable": any(not line.request_line.snapshot.exact for line in offer.priced.lines)
        and not offer.priced.pool.is_host,
        "forms_shown": bool(controls.subject.programs),
        "is_form": FormName(offer.priced.form.name),
    }
