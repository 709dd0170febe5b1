"""What the scheduler does for the billing room. Invoices hourly: a night without power delays and never skips."""

from typing import Any

HOUR = 3600.0


def _every(seconds: float, task: str, *, queue: str = "default", expires: float | None = None) -> dict[str, Any]:
    """A task every `seconds`; a message that no worker took by the next one, or by `expires`, is dropped."""
    options = {"queue": queue, "expires": int(expires or seconds)}
    return {"task": f"apps.billing.tasks.{task}", "schedule": seconds, "options": options}


SCHEDULE = {
    "month-invoices": _every(HOUR, "month_invoices"),
    "outbox-deliver": _every(2.0, "outbox_deliver"),
    "outbox-mail": _every(2.0, "outbox_mail", queue="mail"),
    "outbox-stripe": _every(2.0, "outbox_stripe", queue="stripe"),
    "dunning": _every(HOUR, "dunning"),
    "stripe-tend": _every(60.0, "stripe_tend", queue="stripe"),
    "stripe-check": _every(6 * HOUR, "stripe_check", queue="stripe", expires=HOUR),
    "webhooks-send": _every(3.0, "webhooks_send", queue="webhooks"),
    "drafts": _every(600.0, "drafts", queue="books"),
    "ledger-checks": _every(600.0, "ledger_checks", queue="books"),
    "credits": _every(600.0, "credits_tend"),
}
