"""The processors that programs are compiled for, and the administrator's fleet page."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.access import platform_admin_required
from apps.fleet import selectors, services
from apps.fleet.models import Device
from compiler import targets


@require_GET
def target_list(request: HttpRequest) -> HttpResponse:
    """Every processor version, with the pools that offer it."""
    rows = [(targets.load(name), list(selectors.pools_for_target(name))) for name in targets.names()]
    return render(request, "fleet/target_list.html", {"rows": rows, "host_pools": selectors.host_pools()})


@require_GET
def target_detail(request: HttpRequest, name: str) -> HttpResponse:
    """Every figure of a processor version with its source."""
    if name not in targets.names():
        raise Http404
    target = targets.load(name)
    figures = [(path, value, source) for path, (value, source) in target.figures.items()]
    context = {"target": target, "figures": figures, "pools": selectors.pools_for_target(name)}
    return render(request, "fleet/target_detail.html", context)


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
    services.device_activate(device=device, is_active=not device.is_active)
    word = "takes new windows again" if device.is_active else "takes no new windows; what was sold stays"
    messages.success(request, f"{device.name} {word}.")
    return redirect("fleet:fleet")
