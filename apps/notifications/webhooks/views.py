"""The webhook pages, and the outbox page for administrators."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from apps.accounts.access import org_object_get, organisation_get, platform_admin_check, principal_get
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.accounts.roles import MONEY
from apps.invoicing.models import OutboxWork
from apps.invoicing.outbox import outbox_revive
from apps.ledger.models import OutboxRow
from apps.notifications.models import WebhookDelivery, WebhookEndpoint
from apps.notifications.webhooks import services
from apps.notifications.webhooks.forms import EndpointForm

PER_PAGE = 25


@require_http_methods(["GET", "POST"])
def endpoint_list(request: HttpRequest) -> HttpResponse:
    """Show the endpoints. A valid POST creates an endpoint and shows the secret once."""
    organisation, created = organisation_get(request, roles=MONEY), None
    form = EndpointForm(request.POST or None, initial={"topics": ["invoices", "budgets"]})
    if request.method == "POST" and form.is_valid():
        try:
            created = services.endpoint_create(
                organisation=organisation, actor=principal_get(request).user, now=timezone.now(), **form.cleaned_data
            )
        except Problem as problem:
            form.add_error("url", problem.detail)
        else:
            form = EndpointForm(initial={"topics": ["invoices", "budgets"]})
    endpoints = WebhookEndpoint.objects.filter(organisation=organisation, deleted_at=None)
    context = {"endpoints": endpoints, "form": form, "created": created, "now": timezone.now()}
    return render(request, "notifications/webhooks/list.html", context, status=422 if form.errors else 200)


@require_http_methods(["GET", "POST"])
def endpoint_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show an endpoint with its messages. A POST performs the action of a button."""
    known = WebhookEndpoint.objects.filter(deleted_at=None)
    endpoint = org_object_get(request, known, roles=MONEY, pk=pk)
    if request.method == "POST":
        return _action_run(request, endpoint)
    page = page_of(
        request, endpoint.deliveries.prefetch_related("tries"), ordering=("-created_at", "id"), size=PER_PAGE
    )
    return render(
        request,
        "notifications/webhooks/detail.html",
        {"endpoint": endpoint, "page": page, "api_path": f"/api/v1/webhooks/{pk}/deliveries"},
    )


def _action_run(request: HttpRequest, endpoint: WebhookEndpoint) -> HttpResponse:
    actor, now, action = principal_get(request).user, timezone.now(), request.POST.get("action")
    if action == "delete":
        services.endpoint_delete(endpoint=endpoint, actor=actor, now=now)
        messages.success(request, "Endpoint deleted. No more messages will be sent to this endpoint.")
        return redirect("notifications:webhook_list")
    if action == "test":
        services.test_message(endpoint=endpoint, now=now)
        messages.success(request, "Test message queued. Reload in a few seconds.")
    elif action in {"on", "off"}:
        services.endpoint_switch(endpoint=endpoint, active=action == "on", actor=actor, now=now)
    elif action == "replay":
        delivery = org_object_get(
            request, WebhookDelivery.objects.filter(endpoint=endpoint), roles=MONEY, pk=request.POST.get("delivery")
        )
        services.replay(delivery=delivery, now=now)
        messages.success(request, "Message queued again with the same id.")
    return redirect("notifications:webhook_detail", pk=endpoint.pk)


@require_http_methods(["GET", "POST"])
def outbox(request: HttpRequest) -> HttpResponse:
    """Show administrators the outbox work that is waiting or was given up."""
    platform_admin_check(request)
    if request.method == "POST":
        work = request.POST.get("work", "")
        if not work.isascii() or not work.isdigit() or not OutboxWork.objects.filter(pk=int(work)).exists():
            raise Http404
        outbox_revive(work_id=int(work), now=timezone.now())
        messages.success(request, "Queued for retry.")
        return redirect("notifications:outbox")
    works = OutboxWork.objects.select_related("row__organisation").order_by("id")
    context = {
        "waiting": OutboxRow.objects.filter(delivered_at=None).count(),
        "open": works.filter(done_at=None, dead_at=None)[:PER_PAGE],
        "dead": works.exclude(dead_at=None)[:100],
    }
    return render(request, "notifications/webhooks/outbox.html", context)
