"""Our records about Stripe: customers, pushed invoices, calls, events and checks."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.accounts.models import Organisation
from apps.invoicing.models.invoices import Invoice


class StripeCustomer(models.Model):
    """An organisation's customer at Stripe. `payment_method` is the card to charge automatically, if any."""

    organisation = models.OneToOneField(
        Organisation, on_delete=models.PROTECT, primary_key=True, related_name="stripe_customer"
    )
    customer_id = models.CharField(max_length=80, unique=True)
    email = models.CharField(max_length=254, blank=True, default="")
    payment_method = models.CharField(max_length=80, blank=True)
    method_label = models.CharField(max_length=60, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        db_table = "billing_stripecustomer"

    def __str__(self) -> str:
        return self.customer_id


class PushState(models.TextChoices):
    """The state of an invoice at Stripe. A person must resolve a mismatch."""

    WAITING = "waiting", "Waiting to sync"
    OPEN = "open", "Open"
    MISMATCH = "mismatch", "Totals differ"
    PAID = "paid", "Paid"
    VOID = "void", "Void"
    UNCOLLECTIBLE = "uncollectible", "Uncollectible"
    DROPPED = "dropped", "Not needed"


class StripePush(models.Model):
    """The synchronisation of one invoice with Stripe.

    `ordered` is the amount that Stripe was asked to collect, in the currency's smallest unit, after deduction of the
    credit notes in `included`. `tell_at` is when a change is due to be pushed. `version` is part of the idempotency
    keys.
    """

    invoice = models.OneToOneField(Invoice, on_delete=models.PROTECT, primary_key=True, related_name="stripe_push")
    stripe_id = models.CharField(max_length=80, blank=True, db_index=True)
    state = models.CharField(max_length=14, choices=PushState, default=PushState.WAITING)
    version = models.PositiveIntegerField(default=1)
    version_at = models.DateTimeField()
    ordered = models.BigIntegerField(null=True)
    included = models.JSONField(default=list)
    tried_at = models.DateTimeField(null=True)
    tell_at = models.DateTimeField(null=True)
    hosted_url = models.URLField(max_length=500, blank=True)
    error = models.CharField(max_length=400, blank=True)

    organisation_path: ClassVar[str] = "invoice__organisation"

    class Meta:
        db_table = "billing_stripepush"
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=["waiting", "mismatch", "dropped"]) | ~models.Q(stripe_id=""),
                name="push_has_its_invoice",
            )
        ]

    def __str__(self) -> str:
        return f"{self.invoice_id} {self.state}"


class CallOutcome(models.TextChoices):
    """The known outcome of a call."""

    ACTED = "acted", "Done"
    REFUSED = "refused", "Refused"
    NOT_ACTED = "not_acted", "Not done"


class StripeCall(models.Model):
    """A call that changes something at Stripe. The row is committed before the call is made.

    The call is open until its outcome is known. `broken_at` is set if the idempotency key is bound to a failure.
    """

    id = models.BigAutoField(primary_key=True)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="stripe_calls")
    invoice = models.ForeignKey(Invoice, on_delete=models.PROTECT, null=True, related_name="stripe_calls")
    key = models.CharField(max_length=200, unique=True)
    operation = models.CharField(max_length=30)
    target = models.CharField(max_length=80, blank=True)
    parameters = models.JSONField()
    made_at = models.DateTimeField()
    broken_at = models.DateTimeField(null=True)
    settled_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=10, choices=CallOutcome, blank=True)
    object_id = models.CharField(max_length=80, blank=True)
    error = models.CharField(max_length=400, blank=True)

    class Meta:
        db_table = "billing_stripecall"
        ordering = ["id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(settled_at=None, outcome="")
                | (models.Q(settled_at__isnull=False) & ~models.Q(outcome="")),
                name="stripecall_settled_with_outcome",
            )
        ]
        indexes = [models.Index(fields=["invoice"], name="stripecall_open", condition=models.Q(settled_at=None))]

    def __str__(self) -> str:
        return self.key


class StripeEvent(models.Model):
    """An event as delivered. Each event is stored once, before it is handled."""

    id = models.CharField(max_length=80, primary_key=True)
    type = models.CharField(max_length=80)
    created = models.DateTimeField()
    payload = models.JSONField()
    received_at = models.DateTimeField()
    handled_at = models.DateTimeField(null=True, blank=True)
    listed_at = models.DateTimeField(null=True, blank=True)  # deliveries can have gaps, lists cannot
    attempts = models.PositiveIntegerField(default=0)
    next_at = models.DateTimeField(null=True, blank=True)  # set after a failed attempt
    error = models.CharField(max_length=400, blank=True)

    class Meta:
        db_table = "billing_stripeevent"
        ordering = ["-created", "-id"]
        indexes = [models.Index(fields=["created"], name="stripeevent_open", condition=models.Q(handled_at=None))]

    def __str__(self) -> str:
        return f"{self.type} {self.id}"


class StripeCheck(models.Model):
    """The result of comparing the ledger with Stripe at the instant `at`. The row is never changed."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    rows = models.JSONField()
    differences = models.JSONField()

    class Meta:
        db_table = "billing_stripecheck"
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d} {len(self.differences)} differences"
