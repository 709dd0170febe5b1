"""Payment events of invoices at a payment provider."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.invoicing.models.invoices import Invoice, amount_field


class FactKind(models.TextChoices):
    """The kinds of payment events at Stripe."""

    PAID = "paid", "Paid"
    FAILED = "failed", "Payment failed"
    REFUNDED = "refunded", "Refunded"
    REFUND_FAILED = "refund_failed", "Refund failed"
    DISPUTED = "disputed", "Disputed"
    DISPUTE_WON = "dispute_won", "Dispute won"
    DISPUTE_LOST = "dispute_lost", "Dispute lost"


class StripeFact(models.Model):
    """A payment event at Stripe. Each Stripe object has at most one row for each kind of event."""

    invoice = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="stripe_facts")
    kind = models.CharField(max_length=14, choices=FactKind)
    reference = models.CharField(max_length=120)
    amount = amount_field()
    at = models.DateTimeField()

    organisation_path: ClassVar[str] = "invoice__organisation"

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["kind", "reference"], name="stripefact_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.reference}"

    @property
    def posting_key(self) -> str:
        return f"stripe:{self.kind}:{self.reference}"
