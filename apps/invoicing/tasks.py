"""Tasks of the invoicing room."""

from uuid import UUID

from celery import shared_task
from django.utils import timezone

from apps.invoicing import outbox
from apps.invoicing.checking import TASK, ledger_check_run, ledger_checks_due
from apps.invoicing.draft_keeping import TASK as DRAFT
from apps.invoicing.draft_keeping import draft_make as draft_made
from apps.invoicing.draft_keeping import drafts_due
from apps.invoicing.services import dunning_run, grants_expire, guarantees_credit_due, invoices_issue_month


@shared_task(name="apps.invoicing.tasks.month_invoices", queue="default")
def month_invoices() -> int:
    """Issue the invoices of the month that is over; does nothing when they are issued."""
    return invoices_issue_month(now=timezone.now())


@shared_task(name="apps.invoicing.tasks.outbox_deliver", queue="default")
def outbox_deliver() -> int:
    """Hand on what money has to tell others; what talks to a network is left to the queues below."""
    now = timezone.now()
    return outbox.rows_hand_on(now=now) + outbox.works_carry_out(now=now, queue="default")


@shared_task(name="apps.invoicing.tasks.outbox_mail", queue="mail")
def outbox_mail() -> int:
    """Send the mails that are due."""
    return outbox.works_carry_out(now=timezone.now(), queue="mail")


@shared_task(name="apps.invoicing.tasks.outbox_stripe", queue="stripe")
def outbox_stripe() -> int:
    """Tell Stripe what is due."""
    return outbox.works_carry_out(now=timezone.now(), queue="stripe")


@shared_task(name="apps.invoicing.tasks.dunning", queue="default")
def dunning() -> int:
    """Remind of what is overdue, by the schedule of the settings."""
    return dunning_run(now=timezone.now())


@shared_task(name="apps.invoicing.tasks.credits_tend", queue="default")
def credits_tend() -> int:
    """Credit missed guarantees, end what has expired."""
    now = timezone.now()
    return guarantees_credit_due(now=now) + grants_expire(now=now)


@shared_task(name=TASK, queue="books", ignore_result=True)
def ledger_check(*, check_id: str) -> None:
    """A check of a customer's history that somebody asked for."""
    ledger_check_run(check_id=UUID(check_id), clock=timezone.now)


@shared_task(name="apps.invoicing.tasks.ledger_checks", queue="books", ignore_result=True)
def ledger_checks() -> None:
    """Check histories that grew, and what was asked for and lost."""
    ledger_checks_due(now=timezone.now(), clock=timezone.now)


@shared_task(name=DRAFT, queue="books", ignore_result=True)
def draft_make(*, organisation_id: str, currency: str) -> None:
    """A draft over much usage that somebody asked for."""
    draft_made(organisation_id=UUID(organisation_id), currency=currency, clock=timezone.now)


@shared_task(name="apps.invoicing.tasks.drafts", queue="books", ignore_result=True)
def drafts() -> None:
    """Make drafts anew of what grew, and what was asked for and lost."""
    drafts_due(now=timezone.now(), clock=timezone.now)
