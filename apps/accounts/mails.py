"""Account mail, stored in the same transaction as its cause and sent later by a worker."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from django.core.mail import send_mail
from django.db import transaction

from apps.accounts.broker import task_send_on_commit
from apps.accounts.models import Mail

FIRST_WAIT = timedelta(seconds=30)
LONGEST_WAIT = timedelta(hours=1)
GIVEN_UP_AFTER = timedelta(days=2)  # the links in it have expired by then
BATCH = 50
log = structlog.get_logger("mails")


@transaction.atomic
def mail_queue(*, to: str, subject: str, text: str, now: datetime) -> Mail:
    """Store a message, which a worker sends after the transaction has committed."""
    mail = Mail.objects.create(to=to, subject=subject, text=text, created_at=now, due_at=now)
    task_send_on_commit("apps.accounts.tasks.mails_send", queue="mail")
    return mail


def mails_send_due(*, now: datetime) -> int:
    """Send the messages that are due, delete the sent messages, and return how many were sent."""
    sent = 0
    for _ in range(BATCH):
        outcome = _one_send(now=now)
        if outcome is None:
            break
        sent += outcome
    return sent


@transaction.atomic
def _one_send(*, now: datetime) -> int | None:
    mail = Mail.objects.select_for_update(skip_locked=True).filter(due_at__lte=now).order_by("due_at", "id").first()
    if mail is None:
        return None
    try:
        send_mail(mail.subject, mail.text, None, [mail.to])
    except OSError as error:  # SMTP's errors among them
        mail.attempts += 1
        mail.due_at = now + min(FIRST_WAIT * 2 ** (mail.attempts - 1), LONGEST_WAIT)
        log.warning("mail not sent", mail=mail.pk, attempts=mail.attempts, error=type(error).__name__)
        if now - mail.created_at > GIVEN_UP_AFTER:
            mail.delete()
        else:
            mail.save(update_fields=["attempts", "due_at"])
        return 0
    mail.delete()
    return 1
