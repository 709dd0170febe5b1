"""The ledger: double entry, append-only, chained by hash per organisation. Positive amounts are debits.

It knows contracts and leases as plain UUIDs, since they live in higher rooms.
"""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db import models

from apps.accounts.models import Organisation


def _amount(**options: Any) -> models.DecimalField[Any, Any]:
    """An exact amount: up to 32 digits before the point and 40 after it."""
    return models.DecimalField(max_digits=72, decimal_places=40, **options)


class AccountKind(models.TextChoices):
    """What an account of an organisation stands for."""

    WALLET = "wallet", "Wallet: what may still be spent, less what is set aside"
    HELD = "held", "Held: set aside for accepted contracts"
    ACCRUED = "accrued", "Accrued: used and not yet invoiced"
    REVENUE = "revenue", "Revenue"
    RECEIVABLE = "receivable", "Receivable: invoiced and not yet paid"
    TAX = "tax", "Tax"
    ROUNDING = "rounding", "Rounding: what the one rounding of an invoice moved"
    BREAKAGE = "breakage", "Breakage: charged for what was reserved and not used"
    BANK = "bank", "Bank: paid"


class Account(models.Model):
    """One account of one organisation in one currency; its balance is the sum of its entries."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="accounts")
    kind = models.CharField(max_length=12, choices=AccountKind)
    currency = models.CharField(max_length=3)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organisation", "kind", "currency"], name="account_once"),
            models.CheckConstraint(condition=models.Q(kind__in=AccountKind.values), name="account_kind_known"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.currency}"


class Chain(models.Model):
    """The head of an organisation's chain of transactions. Whoever posts locks this row, last of all locks."""

    organisation = models.OneToOneField(Organisation, on_delete=models.PROTECT, primary_key=True, related_name="chain")
    sequence = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default="0" * 64)

    def __str__(self) -> str:
        return f"{self.sequence} {self.hash[:12]}"


class Transaction(models.Model):
    """Something that happened to money. Its entries sum to zero, which a deferred trigger checks at commit."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="ledger_transactions")
    sequence = models.BigIntegerField()
    kind = models.CharField(max_length=30)
    idempotency_key = models.CharField(max_length=160)
    subject = models.CharField(max_length=160)
    detail = models.JSONField(default=dict)
    at = models.DateTimeField()
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        ordering = ["organisation", "sequence"]
        constraints = [
            models.UniqueConstraint(fields=["organisation", "sequence"], name="transaction_sequence_once"),
            models.UniqueConstraint(fields=["organisation", "idempotency_key"], name="transaction_key_once"),
        ]
        indexes = [models.Index(fields=["organisation", "at"], name="transaction_by_time")]

    def __str__(self) -> str:
        return f"{self.sequence} {self.kind}"


class Entry(models.Model):
    """One side of a transaction; never zero."""

    id = models.BigAutoField(primary_key=True)
    transaction = models.ForeignKey(Transaction, on_delete=models.PROTECT, related_name="entries")
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="entries")
    amount = _amount()

    organisation_path: ClassVar[str] = "transaction__organisation"

    class Meta:
        constraints = [models.CheckConstraint(condition=~models.Q(amount=0), name="entry_not_zero")]

    def __str__(self) -> str:
        return f"{self.account_id} {self.amount}"


class HoldState(models.TextChoices):
    """Pending may post and release; the other two are final."""

    PENDING = "pending", "Pending"
    POSTED = "posted", "Posted"
    RELEASED = "released", "Released"


class Hold(models.Model):
    """The most that a contract may cost, set aside when it is accepted; what is used is posted against it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="holds")
    contract_id = models.UUIDField(unique=True)
    amount = _amount()
    posted = _amount(default=0)
    currency = models.CharField(max_length=3)
    state = models.CharField(max_length=10, choices=HoldState, default=HoldState.PENDING)
    idempotency_key = models.CharField(max_length=160)
    created_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organisation", "idempotency_key"], name="hold_key_once"),
            models.CheckConstraint(
                condition=models.Q(amount__gt=0, posted__gte=0, posted__lte=models.F("amount")), name="hold_within"
            ),
            models.CheckConstraint(
                condition=models.Q(state="pending", closed_at__isnull=True)
                | models.Q(state__in=["posted", "released"], closed_at__isnull=False),
                name="hold_closed_with_its_state",
            ),
        ]
        indexes = [models.Index(fields=["organisation", "state"], name="hold_open")]

    def __str__(self) -> str:
        return f"{self.state} {self.amount} {self.currency}"


class UsageRow(models.Model):
    """What one lease used and what it costs: one row per lease, for ever unique by its key. Never changed."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="usage_rows")
    contract_id = models.UUIDField(db_index=True)
    lease_id = models.UUIDField(null=True)
    idempotency_key = models.CharField(max_length=160)
    payload_digest = models.CharField(max_length=64)
    quantity = models.BigIntegerField()
    operations = models.DecimalField(max_digits=40, decimal_places=0)
    cycles = models.DecimalField(max_digits=40, decimal_places=0)
    billed_operations = models.DecimalField(max_digits=40, decimal_places=0)
    program_digest = models.CharField(max_length=64)
    project_id = models.UUIDField(null=True)
    model_name = models.CharField(max_length=200)
    klass = models.CharField(max_length=20)
    rating = models.JSONField()
    amount = _amount()
    currency = models.CharField(max_length=3)
    occurred_from = models.DateTimeField()
    occurred_to = models.DateTimeField()
    created_at = models.DateTimeField()
    transaction = models.OneToOneField(Transaction, on_delete=models.PROTECT, related_name="usage")

    class Meta:
        ordering = ["occurred_from", "id"]
        constraints = [
            models.UniqueConstraint(fields=["organisation", "idempotency_key"], name="usage_key_once"),
            models.CheckConstraint(condition=models.Q(quantity__gt=0, amount__gt=0), name="usage_is_something"),
            models.CheckConstraint(
                condition=models.Q(occurred_to__gte=models.F("occurred_from")), name="usage_period_forward"
            ),
        ]
        indexes = [models.Index(fields=["organisation", "occurred_from"], name="usage_by_time")]

    def __str__(self) -> str:
        return f"{self.quantity} x {self.model_name}: {self.amount} {self.currency}"


class Cap(models.Model):
    """The most that an organisation may spend in a calendar month (UTC): used so far plus everything on hold."""

    organisation = models.OneToOneField(Organisation, on_delete=models.PROTECT, primary_key=True, related_name="cap")
    amount = _amount()
    currency = models.CharField(max_length=3)
    set_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(amount__gte=0), name="cap_not_negative")]

    def __str__(self) -> str:
        return f"{self.amount} {self.currency} a month"


class OutboxRow(models.Model):
    """What others must hear, written in the transaction that made it true."""

    id = models.BigAutoField(primary_key=True)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="+")
    topic = models.CharField(max_length=60)
    payload = models.JSONField()
    created_at = models.DateTimeField()
    delivered_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["id"], name="outbox_waiting", condition=models.Q(delivered_at=None))]

    def __str__(self) -> str:
        return f"{self.topic} {self.id}"
