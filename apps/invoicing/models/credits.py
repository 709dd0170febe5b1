"""Credits that reduce invoices, and credit notes that correct issued invoices."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.db import models

from apps.accounts.models import Organisation
from apps.invoicing.models.invoices import Invoice, InvoiceLine, amount_field
from apps.ledger.models import UsageRow


class GrantKind(models.TextChoices):
    """The reason for a credit."""

    CREDIT = "credit", "Promotional credit"
    GUARANTEE = "guarantee", "Credit for a missed guarantee"


class CreditGrant(models.Model):
    """A credit that pays for usage until the credit is used up or expires."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="credit_grants")
    kind = models.CharField(max_length=12, choices=GrantKind)
    amount = amount_field()
    currency = models.CharField(max_length=3)
    reason = models.CharField(max_length=300)
    basis = models.JSONField(default=dict)
    idempotency_key = models.CharField(max_length=160)
    granted_at = models.DateTimeField()
    granted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    expires_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["granted_at", "id"]
        constraints = [
            models.UniqueConstraint(fields=["organisation", "idempotency_key"], name="creditgrant_key_once"),
            models.CheckConstraint(condition=models.Q(amount__gt=0), name="creditgrant_is_something"),
            models.CheckConstraint(
                condition=models.Q(expires_at__isnull=True) | models.Q(expires_at__gt=models.F("granted_at")),
                name="creditgrant_expires_later",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.amount} {self.currency}: {self.reason}"

    @property
    def ended(self) -> CreditEnd | None:
        return getattr(self, "end", None)


class CreditNoteCounter(models.Model):
    """The number of the last credit note of a year. Numbers have no gaps."""

    year = models.PositiveSmallIntegerField(primary_key=True)
    last = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.year}: {self.last}"


class CreditNote(models.Model):
    """A correction of an issued invoice. The invoice itself never changes.

    net + tax == total. All three are whole multiples of the currency's smallest unit.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="credit_notes")
    invoice = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="credit_notes")
    number = models.CharField(max_length=20, unique=True)
    currency = models.CharField(max_length=3)
    net = amount_field()
    tax = amount_field()
    total = amount_field()
    reason = models.CharField(max_length=300)
    document = models.JSONField()
    digest = models.CharField(max_length=64)
    issued_at = models.DateTimeField()
    issued_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        ordering = ["-issued_at"]
        constraints = [
            models.CheckConstraint(condition=models.Q(total=models.F("net") + models.F("tax")), name="creditnote_sum"),
            models.CheckConstraint(condition=models.Q(total__gte=0, tax__gte=0), name="creditnote_not_negative"),
        ]

    def __str__(self) -> str:
        return self.number


class CreditNoteLine(models.Model):
    """The credited part of one invoice line.

    `amount` is exact; `share` is the line's share of the rounded total. Line 0 is the remainder carried in.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    credit_note = models.ForeignKey(CreditNote, on_delete=models.PROTECT, related_name="lines")
    line = models.ForeignKey(InvoiceLine, on_delete=models.PROTECT, null=True, related_name="credited")
    number = models.PositiveIntegerField()
    share = amount_field()
    amount = amount_field()

    organisation_path: ClassVar[str] = "credit_note__organisation"

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["credit_note", "number"], name="creditnoteline_once")]

    def __str__(self) -> str:
        return f"{self.number}. {self.share}"


class ReleasedUsage(models.Model):
    """A usage row whose invoice was voided. The row can be put on another invoice."""

    usage = models.ForeignKey(UsageRow, on_delete=models.PROTECT, related_name="released")
    line = models.ForeignKey(InvoiceLine, on_delete=models.PROTECT, related_name="released")
    credit_note = models.ForeignKey(CreditNote, on_delete=models.PROTECT, related_name="released")

    organisation_path: ClassVar[str] = "line__invoice__organisation"

    class Meta:
        constraints = [models.UniqueConstraint(fields=["usage", "line"], name="releasedusage_once")]

    def __str__(self) -> str:
        return f"{self.usage_id} from {self.line_id}"


class CreditUse(models.Model):
    """The amount of a grant that an invoice used in one section of a month.

    A negative amount is credit restored by a credit note. A row without an invoice is credit that expired or was ended.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    grant = models.ForeignKey(CreditGrant, on_delete=models.PROTECT, related_name="uses")
    invoice = models.ForeignKey(Invoice, on_delete=models.PROTECT, null=True, related_name="credit_uses")
    section = models.DateTimeField(null=True)
    amount = amount_field()
    at = models.DateTimeField()

    organisation_path: ClassVar[str] = "grant__organisation"

    class Meta:
        ordering = ["at", "id"]
        constraints = [models.CheckConstraint(condition=~models.Q(amount=0), name="credituse_not_zero")]

    def __str__(self) -> str:
        return f"{self.amount} of {self.grant_id}"


class CreditEnd(models.Model):
    """The early end of a grant, with the person and the reason. Credit already used is not affected."""

    grant = models.OneToOneField(CreditGrant, on_delete=models.PROTECT, primary_key=True, related_name="end")
    reason = models.CharField(max_length=300)
    ended_at = models.DateTimeField()
    ended_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")

    organisation_path: ClassVar[str] = "grant__organisation"

    def __str__(self) -> str:
        return f"{self.grant_id} ended: {self.reason}"
