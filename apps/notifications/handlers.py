"""Outbox handlers that notify customers."""

from apps.invoicing.outbox import Handler

HANDLERS = (
    Handler(
        "webhooks",
        (
            "ledger.usage",
            "ledger.hold.",
            "contract.",
            "invoice.",
            "payment.",
            "refund.",
            "dispute.",
            "credit_note.",
            "credit.",
            "guarantee.",
            "budget.",
            "standing.",
            "compile.",
        ),
        "apps.notifications.webhooks.services.outbox_handle",
    ),
    Handler("budgets", ("ledger.usage",), "apps.notifications.budgets.services.usage_handle"),
    Handler(
        "budget-mails",
        ("budget.alert",),
        "apps.notifications.budgets.services.alert_mail",
        remote=True,
        queue="mail",
    ),
    Handler(
        "webhook-mails", ("webhook.",), "apps.notifications.webhooks.services.disabled_mail", remote=True, queue="mail"
    ),
)
