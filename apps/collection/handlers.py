"""Stripe's handlers of the outbox."""

from django.conf import settings

from apps.invoicing.outbox import Handler

# Every posting of usage would be work for it, so it is there only where it is wanted.
_METER = Handler(
    "stripe-meter", ("ledger.usage",), "apps.collection.metering.usage_mirror", remote=True, queue="stripe"
)

HANDLERS = (
    Handler(
        "stripe",
        ("invoice.issued", "invoice.paid", "invoice.voided", "invoice.written_off", "credit_note.issued"),
        "apps.collection.collecting.outbox_handle",
        remote=True,
        queue="stripe",
    ),
    Handler(
        "stripe-parts",
        ("payment.received",),
        "apps.collection.collecting.settlement_handle",
        remote=True,
        queue="stripe",
    ),
    *([_METER] if settings.STRIPE_METER else []),
)
