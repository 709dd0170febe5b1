"""Outbox handlers that send changes to Stripe."""

from django.conf import settings

from apps.invoicing.outbox import Handler

# Registered only if a meter is set, because every posting of usage creates work for it.
_METER = Handler(
    "stripe-meter", ("ledger.usage",), "apps.collection.metering.usage_mirror", remote=True, queue="stripe"
)

HANDLERS = (
    Handler(
        "stripe",
        ("invoice.issued", "invoice.paid", "invoice.voided", "invoice.written_off", "credit_note.issued"),
        "apps.collection.push.outbox_handle",
        remote=True,
        queue="stripe",
    ),
    Handler(
        "stripe-parts",
        ("payment.received",),
        "apps.collection.push.settlement_handle",
        remote=True,
        queue="stripe",
    ),
    *([_METER] if settings.STRIPE_METER else []),
)
