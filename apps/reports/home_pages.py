"""The dashboard page for administrators."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from apps.accounts.access import platform_admin_required
from apps.reports.capacity_plan_pages import proposal_shown
from apps.reports.home import home


@require_GET
@platform_admin_required
def administration(request: HttpRequest) -> HttpResponse:
    """Show the current state of the platform."""
    name = "reports/_home.html" if request.headers.get("HX-Request") else "reports/home.html"
    found = home(now=timezone.now())
    proposals = [(row, proposal_shown(row.facts)) for row in found.proposals]
    return render(request, name, {"home": found, "proposals": proposals})
