"""Periodic tasks of invoicing."""

from apps.accounts.periodic import HOUR, every

TASKS = "apps.invoicing.tasks"

SCHEDULE = {
    "month-invoices": every(HOUR, f"{TASKS}.month_invoices"),
    "outbox-deliver": every(2.0, f"{TASKS}.outbox_deliver"),
    "outbox-mail": every(2.0, f"{TASKS}.outbox_mail", queue="mail"),
    "outbox-stripe": every(2.0, f"{TASKS}.outbox_stripe", queue="stripe"),
    "dunning": every(HOUR, f"{TASKS}.dunning"),
    "drafts": every(600.0, f"{TASKS}.drafts", queue="books"),
    "ledger-checks": every(600.0, f"{TASKS}.ledger_checks", queue="books"),
    "credits": every(600.0, f"{TASKS}.credits_tend"),
}
