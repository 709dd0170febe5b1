"""The endpoint that receives events from Stripe."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from apps.accounts.broker import task_send
from apps.accounts.problems import Problem
from apps.collection.events import event_receive
from apps.collection.tasks import stripe_event


@csrf_exempt
@login_not_required
@require_POST
def webhook(request: HttpRequest) -> HttpResponse:
    """Store an event with a valid signature, and respond immediately."""
    try:
        event_id = event_receive(
            body=request.body, signature=request.headers.get("Stripe-Signature", ""), now=timezone.now()
        )
    except Problem as refusal:
        return HttpResponse(refusal.detail, status=refusal.status, content_type="text/plain")
    task_send(stripe_event.name, queue="stripe", event_id=event_id)  # a lost task is caught up by the next run
    return HttpResponse(status=200)
