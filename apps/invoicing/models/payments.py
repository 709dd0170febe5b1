"""The records that settle invoices: payments, settlements and reminders."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models

from apps.accounts.models import Organisation
from apps.invoicing.models.credits import CreditNote
from apps.invoicing.models.invoices import Invoice, amount_field


class Payment(models.Model):
    """A received payment. The idempotency key prevents duplicates."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="payments")
    amount = amount_field()
    currency = models.CharField(max_length=3)
    provider = models.CharField(max_length=30)
    reference = models.CharField(max_length=120)
    idempotency_key = models.CharField(max_length=160)
    at = models.DateTimeField()
    recorded_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        ordering = ["-at"]
        constraints = [
            models.UniqueConstraint(fields=["organisation", "idempotency_key"], name="payment_key_once"),
            models.CheckConstraint(condition=models.Q(amount__gt=0), name="payment_is_something"),
        ]

    def __str__(self) -> str:
        return f"{self.amount} {self.currency} {self.reference}"


class SettlementKind(models.TextChoices):
    """The source of a settlement."""

    PAYMENT = "payment", "Payment"
    BALANCE = "balance", "Customer's balance"
    CREDIT_NOTE = "credit_note", "Credit note"
    WRITE_OFF = "write_off", "Written off"


class Settlement(models.Model):
    """An amount that settles all or part of an invoice. A negative amount reverses a settlement."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    invoice = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="settlements")
    kind = models.CharField(max_length=12, choices=SettlementKind)
    amount = amount_field()
    payment = models.ForeignKey(Payment, on_delete=models.PROTECT, null=True, related_name="settlements")
    credit_note = models.ForeignKey(CreditNote, on_delete=models.PROTECT, null=True, related_name="settlements")
    at = models.DateTimeField()

    organisation_path: ClassVar[str] = "invoice__organisation"

    class Meta:
        ordering = ["at", "id"]
        constraints = [
            models.CheckConstraint(condition=~models.Q(amount=0), name="settlement_not_zero"),
            models.CheckConstraint(
                condition=models.Q(kind="payment", payment__isnull=False, credit_note__isnull=True)
                | models.Q(kind="credit_note", payment__isnull=True, credit_note__isnull=False)
                | models.Q(kind__in=["balance", "write_off"], payment__isnull=True, credit_note__isnull=True),
                name="settlement_names_its_source",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.amount}"


class DunningStep(models.Model):
    """A reminder for an unpaid invoice. Each level is sent at most once."""

    id = models.BigAutoField(primary_key=True)
    invoice = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="dunning")
    level = models.PositiveSmallIntegerField()
    open = amount_field()
    at = models.DateTimeField()

    organisation_path: ClassVar[str] = "invoice__organisation"

    class Meta:
        ordering = ["level"]
        constraints = [models.UniqueConstraint(fields=["invoice", "level"], name="dunningstep_once")]

    def __str__(self) -> str:
        return f"reminder {self.level} of {self.invoice_id}"
