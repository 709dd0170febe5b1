"""Record the failure of a device, on a page and through the API."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods
from ninja import Field, Router

from apps.accounts.access import platform_admin_check, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.dispatch.fleet import edits, fleet_preview
from apps.dispatch.fleet.api import FleetEditOut
from apps.fleet.current import document_check, document_now
from apps.fleet.models import Device
from apps.reports.failures import failure_record

router = Router(tags=["fleet"])


class FailureIn(RequestBody):
    """`expected` is the digest of the fleet that you saw."""

    expected: str = Field(pattern=r"^[0-9a-f]{64}$")


@router.post(
    "/fleet/devices/{uuid:pk}/failure",
    auth=requires(Scope.ADMIN),
    response=FleetEditOut,
    operation_id="fleet_failure_record",
    summary="Record the failure of a device",
)
@idempotent
def failure_create(request: HttpRequest, pk: UUID, payload: FailureIn) -> dict[str, Any]:
    """Windows move to other devices if possible. All other windows are lost and credited. A recorded failure cannot be
    undone.
    """
    change = failure_record(
        device=_device(pk), expected=payload.expected, actor=principal_get(request).user, now=timezone.now()
    )
    return {"digest": document_now().digest, "change": change}


@require_http_methods(["GET", "POST"])
def failure(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the effect of a device's failure; a POST records the failure."""
    principal = platform_admin_check(request)
    device = _device(pk)
    if request.method == "POST":
        return _recorded(request, device, principal.user)
    before = document_now()
    raw = before.to_json()
    edits.device_set(device.pool.slug, device.name, "failed")(raw)
    plan = fleet_preview(document=document_check(raw), now=timezone.now())
    broken = [one for one in plan.broken if one.is_failure]
    context = {"device": device, "plan": plan, "broken": broken, "digest": before.digest}
    return render(request, "reports/failure.html", context)


def _recorded(request: HttpRequest, device: Device, actor: Any) -> HttpResponse:
    try:
        change = failure_record(device=device, expected=request.POST.get("digest", ""), actor=actor, now=timezone.now())
    except Problem as refusal:
        messages.error(request, refusal.detail)
        return redirect("reports:failure", pk=device.pk)
    messages.success(request, change.summary if change else "This device's failure is already recorded.")
    return redirect("dispatch:fleet_changes")


def _device(pk: UUID) -> Device:
    return get_object_or_404(Device.objects.select_related("pool"), pk=pk, owned_until__isnull=True)
