"""Pages that show what-ifs and capacity plan proposals as changes of the fleet."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET
from ninja import Router, Schema

from apps.accounts.access import platform_admin_required
from apps.accounts.auth import requires
from apps.accounts.roles import Scope
from apps.dispatch.fleet.differences import PageTexts, difference_page
from apps.fleet.current import document_now
from apps.fleet.document import Document, write
from apps.reports.models import CapacityPlan, WhatIf
from apps.reports.proposals import document_of_plan, document_of_what_if

router = Router(tags=["capacity"])


class ProposedOut(Schema):
    """A fleet file for `POST /fleet/diff`. To apply the file, send it with `expected` to `POST /fleet/apply`."""

    expected: str
    toml: str


@router.get(
    "/capacity/what-if/{uuid:pk}/fleet",
    auth=requires(Scope.ADMIN),
    response=ProposedOut,
    operation_id="what_if_fleet",
    summary="Get a what-if as a fleet file",
)
def what_if_fleet_get(request: HttpRequest, pk: UUID) -> dict[str, Any]:
    """Returns the changed fleet without applying the change. The file describes only the fleet, not demand or prices."""
    return _proposed(document_of_what_if(get_object_or_404(WhatIf, pk=pk), now=timezone.now()))


@router.get(
    "/capacity/plans/{uuid:pk}/fleet/{pool}/{kind}",
    auth=requires(Scope.ADMIN),
    response=ProposedOut,
    operation_id="capacity_plan_fleet",
    summary="Get a proposal of a capacity plan as a fleet file",
)
def plan_fleet_get(request: HttpRequest, pk: UUID, pool: str, kind: str) -> dict[str, Any]:
    """Returns the changed fleet without applying the change. `kind` is `spare`, `power` or `short`."""
    return _proposed(document_of_plan(get_object_or_404(CapacityPlan, pk=pk), pool=pool, kind=kind, now=timezone.now()))


def _proposed(document: Document) -> dict[str, Any]:
    return {"expected": document_now().digest, "toml": write(document)}


@require_GET
@platform_admin_required
def what_if_fleet(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the effect of a what-if on the fleet and on sold windows."""
    what_if = get_object_or_404(WhatIf, pk=pk)
    shown = PageTexts("Apply this what-if", reverse("reports:what_if_detail", args=[pk]), "What if", f"what-if {pk}")
    return difference_page(request, lambda: document_of_what_if(what_if, now=timezone.now()), shown)


@require_GET
@platform_admin_required
def plan_fleet(request: HttpRequest, pk: UUID, pool: str, kind: str) -> HttpResponse:
    """Show the effect of a capacity plan proposal on the fleet and on sold windows."""
    plan = get_object_or_404(CapacityPlan, pk=pk)
    shown = PageTexts(
        "Apply this proposal", reverse("reports:capacity_plan", args=[pk]), "Capacity plan", f"capacity plan {pk}"
    )
    return difference_page(request, lambda: document_of_plan(plan, pool=pool, kind=kind, now=timezone.now()), shown)
