"""Outbox handlers of invoicing."""

from apps.invoicing.outbox import Handler

HANDLERS = (
    Handler(
        "invoice-mails",
        ("invoice.issued", "invoice.reminder"),
        "apps.invoicing.mails.invoice_mail",
        remote=True,
        queue="mail",
    ),
    Handler(
        "standing-mails",
        ("standing.served", "standing.expired", "standing.refused"),
        "apps.invoicing.mails.standing_mail",
        remote=True,
        queue="mail",
    ),
)
