"""The processors that programs are compiled for, and the administrator's fleet page."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.access import platform_admin_required, principal_get
from apps.accounts.problems import Problem
from apps.fleet import descriptions, selectors, services
from apps.fleet.models import Device
from compiler import targets


@require_GET
def target_list(request: HttpRequest) -> HttpResponse:
    """Every processor version, with the pools that offer it."""
    known = [targets.load(name) for name in targets.names()]
    context = {
        "targets": known,
        "pools": [list(selectors.pools_for_target(target.name)) for target in known],
        "rows": descriptions.comparison(known),
        "host_pools": selectors.host_pools(),
    }
    return render(request, "fleet/target_list.html", context)


@require_GET
def target_detail(request: HttpRequest, name: str) -> HttpResponse:
    """Every figure of a processor version with its source."""
    if name not in targets.names():
        raise Http404
    target = targets.load(name)
    pools = selectors.pools_for_target(name)
    return render(request, "fleet/target_detail.html", {**described(target), "pools": pools, "is_shipped": True})


def described(target: targets.Target) -> dict[str, Any]:
    """What the page of a processor shows of it."""
    peaks = [(title, descriptions.peak(target, kind)) for title, kind in descriptions.PRECISIONS]
    return {
        "target": target,
        "parts": descriptions.parts(target),
        "others": descriptions.others(target),
        "peaks": [(title, rate) for title, rate in peaks if rate],
        "link": descriptions.per_second(target, target.link_in.bytes_per_cycle * target.link_in.instances, "B"),
        "energy": descriptions.energy(target),
        "passes": descriptions.passes(target),
        "sources": descriptions.sources(target),
    }


@require_GET
def target_file(request: HttpRequest, name: str) -> HttpResponse:
    """The file that describes a processor version, as it ships: a start for one of your own."""
    if name not in targets.names():
        raise Http404
    response = HttpResponse(targets.text(name), content_type="application/toml; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.toml"'
    return response


@require_GET
@platform_admin_required
def fleet(request: HttpRequest) -> HttpResponse:
    """Pools, devices, the hosts that serve them and what was measured."""
    now = timezone.now()
    return render(request, "fleet/fleet.html", {"pools": selectors.pools_in_full(now=now), "now": now})


@require_POST
@platform_admin_required
def device_switch(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Take a device out of sale, or back in."""
    device = get_object_or_404(Device, pk=pk)
    try:
        services.device_activate(device=device, is_active=not device.is_active)
    except Problem as refusal:
        messages.error(request, refusal.detail)
        return redirect("fleet:fleet")
    word = "takes new windows again" if device.is_active else "takes no new windows; what was sold stays"
    messages.success(request, f"{device.name} {word}.")
    return redirect("fleet:fleet")


@require_POST
@platform_admin_required
def device_retire(request: HttpRequest, pk: UUID) -> HttpResponse:
    """A device that is owned no more: it costs nothing from now on."""
    device = get_object_or_404(Device, pk=pk)
    try:
        services.device_retire(device=device, actor=principal_get(request).user, now=timezone.now())
        messages.success(request, f"{device.name} is owned no more; it costs nothing from now on.")
    except Problem as refusal:
        messages.error(request, refusal.detail)
    return redirect("fleet:fleet")
