"""Invoices. An issued invoice never changes."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast

from apps.accounts.models import Organisation
from apps.ledger.models import UsageRow
from apps.pricing.rating import Currency
from apps.sales.models import Contract


def amount_field(**options: Any) -> models.DecimalField[Any, Any]:
    """Return a model field for exact amounts of money."""
    return models.DecimalField(max_digits=72, decimal_places=40, **options)


class TaxScheme(models.TextChoices):
    """The reason for the tax rate. Every reason except the standard rate is explained on the invoice."""

    STANDARD = "standard", "Standard rate"
    REVERSE_CHARGE = "reverse_charge", "Reverse charge"
    EXEMPT = "exempt", "Exempt from tax"


class BillingProfile(models.Model):
    """An organisation's billing address and tax rate."""

    organisation = models.OneToOneField(
        Organisation, on_delete=models.PROTECT, primary_key=True, related_name="billing_profile"
    )
    legal_name = models.CharField(max_length=200, blank=True)
    address = models.TextField(blank=True)
    tax_id = models.CharField(max_length=40, blank=True)
    tax_scheme = models.CharField(max_length=16, choices=TaxScheme, default=TaxScheme.STANDARD)
    tax_rate = models.DecimalField(max_digits=5, decimal_places=4, default=Decimal(0))
    payment_days = models.PositiveSmallIntegerField(default=14)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(tax_rate__gte=0, tax_rate__lt=1), name="profile_tax_rate_share"),
            models.CheckConstraint(
                condition=models.Q(tax_scheme="standard")
                | models.Q(tax_scheme="exempt", tax_rate=0)
                | (models.Q(tax_scheme="reverse_charge", tax_rate=0) & ~models.Q(tax_id="")),
                name="profile_tax_scheme_fits",
            ),
        ]

    def __str__(self) -> str:
        return self.legal_name


class InvoiceCounter(models.Model):
    """The number of the last invoice of a year. Numbers have no gaps."""

    year = models.PositiveSmallIntegerField(primary_key=True)
    last = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.year}: {self.last}"


class InvoiceState(models.TextChoices):
    """The state of an invoice. In the first three states, the invoice is unpaid."""

    ISSUED = "issued", "Issued"
    OVERDUE = "overdue", "Overdue"
    COLLECTION = "collection", "In collection"
    PAID = "paid", "Paid"
    VOID = "void", "Void"
    WRITTEN_OFF = "written_off", "Written off"


class DisputeState(models.TextChoices):
    """The state of a payment dispute; empty if there is no dispute."""

    OPEN = "open", "Disputed"
    WON = "won", "Dispute won"
    LOST = "lost", "Dispute lost"


WAITING = (InvoiceState.ISSUED, InvoiceState.OVERDUE, InvoiceState.COLLECTION)


class Invoice(models.Model):
    """An invoice for [period_start, period_end).

    net + carried_in == payable + correction + carried_out, exactly. `due` is `payable` plus tax, and `open` is `due`
    less the settlements. `tax_carried` is the exact tax less the charged tax.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="invoices")
    number = models.CharField(max_length=20, unique=True)
    sequence = models.PositiveIntegerField()
    period_start = models.DateTimeField()
    period_end = models.DateTimeField()
    currency = models.CharField(max_length=3)
    net = amount_field()
    carried_in = amount_field()
    carried_out = amount_field()
    correction = amount_field()
    payable = amount_field()
    tax = amount_field()
    tax_carried = amount_field(default=0)
    due = amount_field()
    open = amount_field(default=0)
    rules = models.PositiveSmallIntegerField(default=1)
    document = models.JSONField()
    # Decimal places of the currency, stored apart because the document of a large invoice is large.
    exponent = models.GeneratedField(
        expression=Cast(KeyTextTransform("exponent", KeyTransform("currency", "document")), models.SmallIntegerField()),
        output_field=models.SmallIntegerField(),
        db_persist=True,
    )
    digest = models.CharField(max_length=64)
    provider = models.CharField(max_length=30)
    state = models.CharField(max_length=12, choices=InvoiceState, default=InvoiceState.ISSUED)
    reminders = models.PositiveSmallIntegerField(default=0)
    dispute = models.CharField(max_length=4, choices=DisputeState, blank=True)
    issued_at = models.DateTimeField()
    issued_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    due_at = models.DateTimeField()
    paid_at = models.DateTimeField(null=True, blank=True)
    payment_reference = models.CharField(max_length=120, blank=True)

    class Meta:
        ordering = ["-issued_at"]
        constraints = [
            models.UniqueConstraint(fields=["organisation", "sequence"], name="invoice_sequence_once"),
            models.CheckConstraint(
                condition=models.Q(period_end__gt=models.F("period_start")), name="invoice_period_half_open"
            ),
            models.CheckConstraint(
                condition=models.Q(state__in=WAITING, paid_at__isnull=True)
                | models.Q(state="paid", paid_at__isnull=False)
                | models.Q(state__in=["void", "written_off"], paid_at__isnull=True),
                name="invoice_paid_with_its_state",
            ),
            models.CheckConstraint(
                condition=models.Q(open__gte=0, open__lte=models.F("due"))
                & (models.Q(open=0) | models.Q(state__in=WAITING)),
                name="invoice_open_within_due",
            ),
            models.CheckConstraint(
                condition=models.Q(
                    net=models.F("payable") + models.F("correction") + models.F("carried_out") - models.F("carried_in")
                ),
                name="invoice_loses_nothing",
            ),
        ]

    def __str__(self) -> str:
        return self.number

    @property
    def is_waiting(self) -> bool:
        return self.state in WAITING

    @property
    def unit(self) -> Currency:
        return Currency(self.currency, self.exponent)

    @property
    def shown_currency(self) -> dict[str, Any]:
        return {"code": self.currency, "exponent": self.exponent}


class InvoiceLine(models.Model):
    """An invoice line: the usage of one program under one contract, or a charge for unused volume."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    invoice = models.ForeignKey(Invoice, on_delete=models.PROTECT, related_name="lines")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=12)
    contract = models.ForeignKey(Contract, on_delete=models.PROTECT, related_name="invoice_lines")
    quantity = models.DecimalField(max_digits=40, decimal_places=0)
    amount = amount_field()
    share = amount_field()

    organisation_path: ClassVar[str] = "invoice__organisation"

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["invoice", "number"], name="invoiceline_number_once")]

    def __str__(self) -> str:
        return f"{self.number}. {self.amount}"


class InvoicedUsage(models.Model):
    """Links a usage row to its invoice line. A row is on at most one invoice at a time; voiding the invoice deletes the link."""

    usage = models.OneToOneField(UsageRow, on_delete=models.PROTECT, primary_key=True, related_name="invoiced")
    line = models.ForeignKey(InvoiceLine, on_delete=models.PROTECT, related_name="usages")

    organisation_path: ClassVar[str] = "line__invoice__organisation"

    def __str__(self) -> str:
        return f"{self.usage_id} on {self.line_id}"
