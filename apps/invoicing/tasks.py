"""Celery tasks of invoicing."""

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from apps.invoicing import outbox
from apps.invoicing.ledger_checks import TASK, ledger_check_run, ledger_checks_make_due
from apps.invoicing.services import dunning_run, grants_expire, guarantees_credit_due, invoices_issue_month
from apps.invoicing.stored_drafts import TASK as DRAFT
from apps.invoicing.stored_drafts import draft_make as draft_made
from apps.invoicing.stored_drafts import drafts_make_due


@shared_task(name="apps.invoicing.tasks.month_invoices", queue="default")
def month_invoices() -> int:
    """Issue the invoices for last month, unless they have been issued."""
    return invoices_issue_month(now=timezone.now())


@shared_task(name="apps.invoicing.tasks.outbox_deliver", queue="default")
def outbox_deliver() -> int:
    """Dispatch outbox rows, and run the due work of the default queue."""
    now = timezone.now()
    return outbox.rows_dispatch(now=now) + outbox.works_run(now=now, queue="default")


@shared_task(name="apps.invoicing.tasks.outbox_mail", queue="mail")
def outbox_mail() -> int:
    """Send the e-mails that are due."""
    return outbox.works_run(now=timezone.now(), queue="mail")


@shared_task(name="apps.invoicing.tasks.outbox_stripe", queue="stripe")
def outbox_stripe() -> int:
    """Run the due outbox work for Stripe."""
    return outbox.works_run(now=timezone.now(), queue="stripe")


@shared_task(name="apps.invoicing.tasks.dunning", queue="default")
def dunning() -> int:
    """Send the reminders that are due."""
    return dunning_run(now=timezone.now())


@shared_task(name="apps.invoicing.tasks.credits_tend", queue="default")
def credits_tend() -> int:
    """Grant credits for missed guarantees, and expire credits."""
    now = timezone.now()
    return guarantees_credit_due(now=now) + grants_expire(now=now)


@shared_task(name=TASK, queue="books", ignore_result=True)
def ledger_check(*, check_id: str) -> None:
    """Run a requested ledger check."""
    ledger_check_run(check_id=UUID(check_id), clock=timezone.now)


@shared_task(name="apps.invoicing.tasks.ledger_checks", queue="books", ignore_result=True)
def ledger_checks() -> None:
    """Run all ledger checks that are due."""
    ledger_checks_make_due(now=timezone.now(), clock=timezone.now)


@shared_task(name=DRAFT, queue="books", ignore_result=True)
def draft_make(*, organisation_id: str, currency: str) -> None:
    """Make a requested draft."""
    draft_made(organisation_id=UUID(organisation_id), currency=currency, clock=timezone.now)


@shared_task(name="apps.invoicing.tasks.drafts", queue="books", ignore_result=True)
def drafts() -> None:
    """Make all drafts that are due."""
    drafts_make_due(now=timezone.now(), clock=timezone.now)
