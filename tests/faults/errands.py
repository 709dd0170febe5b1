"""Tasks that only these tests give to a real worker: to arm itself, and what otherwise a person or Stripe would do."""

from __future__ import annotations

from pathlib import Path

from celery import shared_task
from django.utils import timezone

from apps.accounts import failpoints
from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.collection.events import event_receive
from apps.collection.tasks import stripe_event
from apps.invoicing.services import invoice_issue


@shared_task(name="tests.faults.errands.arm", queue="default")
def arm(*, point: str, marker: str) -> str:
    """From now on the process that runs this dies at `point`, once."""
    failpoints.arm(point, Path(marker))
    return point


@shared_task(name="tests.faults.errands.issue", queue="default", ignore_result=True)
def issue(*, organisation_id: str) -> None:
    """The invoice that somebody asks for."""
    try:
        invoice_issue(organisation=Organisation.objects.get(pk=organisation_id), actor=None, now=timezone.now())
    except Problem as refusal:
        if refusal.kind != "nothing-to-invoice":
            raise


@shared_task(name="tests.faults.errands.deliver", queue="default", ignore_result=True)
def deliver(*, body: str, signature: str) -> None:
    """Stripe's delivery, as the web process takes it."""
    stripe_event.delay(event_id=event_receive(body=body.encode(), signature=signature, now=timezone.now()))


@shared_task(name="tests.faults.errands.done", queue="default")
def done() -> bool:
    """Everything that was asked before has had its turn."""
    return True
