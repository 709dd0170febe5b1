"""The periodic Celery tasks of the accounts app."""

from celery import shared_task
from django.utils import timezone

from apps.accounts import mails


@shared_task(name="apps.accounts.tasks.mails_send", queue="mail")
def mails_send() -> int:
    """Send the e-mails that are due, and return the number sent."""
    return mails.mails_send_due(now=timezone.now())
