"""The quote builder: controls, and a price that the server computes anew whenever one of them moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.accounts.roles import ENGINEERING
from apps.compilation.models import Program
from apps.pricing.grid import tariff_grid
from apps.pricing.selectors import book_in_force, classes_ordered, document_of
from apps.sales import services
from apps.sales.builder import STEPS, Controls, controls_read, pools_fitting
from apps.sales.plans import plan_lines_get
from apps.sales.services import Offer, QuoteLine


@dataclass(frozen=True)
class Subject:
    """What is quoted: a program or a plan, found for the organisation."""

    program: Program | None
    plan_id: UUID | None


@require_http_methods(["GET", "POST"])
def quote_new(request: HttpRequest) -> HttpResponse:
    """GET: the builder. POST: make the quote that is shown."""
    organisation, now = organisation_get(request, roles=ENGINEERING), timezone.now()
    sent = request.POST if request.method == "POST" else request.GET
    subject = _subject(request, sent)
    data = _first_controls(sent, organisation, subject) if request.method == "GET" else sent
    context = _context(data, organisation, subject, now)
    if request.method == "POST" and context["refusal"] is None:
        try:
            quote = _create(request, organisation, context["controls"], now)
        except Problem as problem:
            context["refusal"], context["offer"] = problem, None
        else:
            return redirect("sales:quote_detail", pk=quote.pk)
    programs = Program.objects.filter(organisation=organisation).select_related("model_version__model")
    context |= {
        "programs": programs.order_by("model_version__model__name", "target", "-created_at"),
        "subject": subject,
        "steps": STEPS,
        "step_last": len(STEPS) - 1,
        "pools": pools_fitting(subject.program) if subject.program else [],
        "api_body": {
            "lines": [
                {"program": str(subject.program.pk) if subject.program else "<program id>", "executions": 1_000_000}
            ],
            "klass": "standard",
            "pool": "lpu-a",
        },
    }
    refusal = context["refusal"]
    return render(request, "sales/quote_new.html", context, status=refusal.status if refusal and request.POST else 200)


@require_GET
def quote_preview(request: HttpRequest) -> HttpResponse:
    """The price part of the builder, computed for the present controls."""
    organisation, now = organisation_get(request, roles=ENGINEERING), timezone.now()
    context = _context(request.GET, organisation, _subject(request, request.GET), now)
    return render(request, "sales/_offer.html", {**context, "is_update": True})


def _subject(request: HttpRequest, data: Mapping[str, Any]) -> Subject:
    program, plan = _uuid(data.get("program")), _uuid(data.get("plan"))
    found = None
    if program is not None:
        related = Program.objects.select_related("model_version__model__project")
        found = org_object_get(request, related, roles=ENGINEERING, pk=program)
    return Subject(found, plan)


def _uuid(value: Any) -> UUID | None:
    if not value:
        return None
    try:
        return UUID(str(value))
    except ValueError as error:
        raise Http404 from error


def _context(data: Mapping[str, Any], organisation: Organisation, subject: Subject, now: datetime) -> dict[str, Any]:
    context: dict[str, Any] = {
        "organisation": organisation,
        "now": now,
        "refusal": None,
        "offer": None,
        "controls": None,
    }
    try:
        book = document_of(book_in_force(at=now))
        context |= {
            "classes": classes_ordered(book),
            "grid": tariff_grid(book=book, zone=organisation.time_zone, now=now),
        }
        controls = controls_read(
            data, organisation=organisation, plan_id=subject.plan_id, program=subject.program, now=now
        )
        context["controls"] = controls
        if subject.program is None and subject.plan_id is None:
            return context
        offer, controls = _offer(organisation, controls, now)
        context |= {"offer": offer, "controls": controls, **_shown(offer, _previous(data))}
    except Problem as problem:
        context["refusal"] = problem
    return context


def _first_controls(data: QueryDict, organisation: Organisation, subject: Subject) -> Mapping[str, Any]:
    """What a plan asks for is where its quote's controls begin."""
    if subject.plan_id is None or data.get("volume"):
        return data
    try:
        planned = plan_lines_get(organisation=organisation, plan_id=subject.plan_id, items=None)
    except Problem:
        return data  # said again, in the page, when it is priced
    return {"volume": planned.items, "klass": planned.klass, **data.dict()}


def _offer(organisation: Organisation, controls: Controls, now: datetime) -> tuple[Offer, Controls]:
    lines, controls = _lines(organisation, controls)
    assert controls.pool is not None
    offer = services.offer_make(
        organisation=organisation,
        lines=lines,
        klass=controls.klass,
        pool=controls.pool,
        window=controls.window,
        now=now,
    )
    return offer, controls


def _lines(organisation: Organisation, controls: Controls) -> tuple[list[QuoteLine], Controls]:
    if controls.plan_id is not None:
        planned = plan_lines_get(organisation=organisation, plan_id=controls.plan_id, items=controls.volume)
        return planned.lines, replace(controls, pool=controls.pool or planned.pool)
    if controls.program is None or controls.pool is None:
        raise Problem(409, "No pool", "No pool can run this program at present; ask the administrator.", kind="no-pool")
    return [QuoteLine(controls.program, controls.volume)], controls


def _create(request: HttpRequest, organisation: Organisation, controls: Controls, now: datetime) -> Any:
    lines, controls = _lines(organisation, controls)
    assert controls.pool is not None
    return services.quote_create(
        organisation=organisation,
        lines=lines,
        klass=controls.klass,
        pool=controls.pool,
        window=controls.window,
        plan_id=controls.plan_id,
        actor=principal_get(request).user,
        now=now,
    )


def _previous(data: Mapping[str, Any]) -> Decimal | None:
    try:
        return Decimal(str(data["previous"])) if data.get("previous") else None
    except InvalidOperation:
        return None


def _shown(offer: Offer, previous: Decimal | None) -> dict[str, Any]:
    """What the price part shows beside the document itself."""
    net = offer.priced.worst
    changed = previous is not None and previous.is_finite() and previous != net and previous > 0
    off_peak = next((one for one in offer.document["alternatives"] if one["klass"] == "off_peak"), None)
    return {
        "document": offer.document,
        "previous": previous if changed else None,
        "change": Fraction(net) / Fraction(previous) - 1 if changed and previous is not None else None,
        "alternatives": [{**one, "saving": 1 - Fraction(one["share"])} for one in offer.document["alternatives"]],
        "off_peak_saving": 1 - Fraction(off_peak["share"]) if off_peak else None,
        "slots": offer.document["reservation"],
    }
