"""The pages about processors, and the fleet page for administrators."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from apps.accounts.access import platform_admin_required
from apps.fleet import descriptions, selectors
from apps.fleet.models import DeviceState
from compiler import targets


@require_GET
def target_list(request: HttpRequest) -> HttpResponse:
    """The page of all processor versions and the pools that offer them."""
    known = selectors.targets_known()
    context = {
        "targets": known,
        "pools": [list(selectors.pools_for_target(target.name)) for target in known],
        "rows": descriptions.comparison(known),
        "host_pools": selectors.host_pools(),
    }
    return render(request, "fleet/target_list.html", context)


@require_GET
def target_detail(request: HttpRequest, name: str) -> HttpResponse:
    """The page of a processor version, with all its figures and their sources."""
    target = _target(name)
    pools = selectors.pools_for_target(name)
    return render(request, "fleet/target_detail.html", {**described(target), "pools": pools, "is_shipped": True})


def _target(name: str) -> targets.Target:
    known = {target.name: target for target in selectors.targets_known()}
    if name not in known:
        raise Http404
    return known[name]


def described(target: targets.Target) -> dict[str, Any]:
    """Return the template context of a processor's page."""
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
    """Download the file of a processor version, as a starting point for a custom processor."""
    _target(name)
    text = selectors.processors_offered().get(name) or targets.text(name)
    response = HttpResponse(text, content_type="application/toml; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}.toml"'
    return response


@require_GET
@platform_admin_required
def fleet(request: HttpRequest) -> HttpResponse:
    """The fleet page for administrators: pools, devices, worker hosts and measurements."""
    now = timezone.now()
    context = {"pools": selectors.pools_in_full(now=now), "now": now, "states": [*DeviceState.values, "retired"]}
    context["processors"] = [selectors.described(text) for text in selectors.processors_offered().values()]
    return render(request, "fleet/fleet.html", context)
