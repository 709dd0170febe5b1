"""The ledger: double-entry, append-only, and hash-chained for each organisation. Positive amounts are debits."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.db import models

from apps.accounts.models import ApiToken, Organisation
from apps.ledger.fields import DocumentField
from apps.registry.models import Project


def _amount(**options: Any) -> models.DecimalField[Any, Any]:
    return models.DecimalField(max_digits=72, decimal_places=40, **options)


class AccountKind(models.TextChoices):
    """The kinds of account that an organisation has."""

    WALLET = "wallet", "Wallet: counterpart of the reserved amounts"
    HELD = "held", "Held: reserved for accepted contracts"
    ACCRUED = "accrued", "Accrued: used and not yet invoiced"
    REVENUE = "revenue", "Revenue"
    RECEIVABLE = "receivable", "Receivable: invoiced and not yet paid"
    TAX = "tax", "Tax"
    ROUNDING = "rounding", "Rounding: the differences from rounding each invoice once"
    BREAKAGE = "breakage", "Breakage: charged for reserved but unused capacity"
    BANK = "bank", "Bank: paid"
    PREPAID = "prepaid", "Prepaid: paid or credited in excess of the amount due"
    CREDIT = "credit", "Credit: granted and not yet used"
    PROMOTION = "promotion", "Promotion: the cost of credits and free tiers"
    REFUND = "refund", "Refund: paid back to the customer"
    DISPUTED = "disputed", "Disputed: withdrawn while a dispute is open"
    BAD_DEBT = "bad_debt", "Bad debt: invoiced and written off"


class Account(models.Model):
    """An organisation's account in one currency. The balance is the sum of the entries."""

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
    """The head of an organisation's transaction chain. Take all other locks before locking this row."""

    organisation = models.OneToOneField(Organisation, on_delete=models.PROTECT, primary_key=True, related_name="chain")
    sequence = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default="0" * 64)

    def __str__(self) -> str:
        return f"{self.sequence} {self.hash[:12]}"


class Transaction(models.Model):
    """A ledger transaction. The entries sum to zero; a deferred trigger checks the sum at commit."""

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


class ChainRoot(models.Model):
    """The head of the chain at the end of a past day (UTC)."""

    id = models.BigAutoField(primary_key=True)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="chain_roots")
    day = models.DateField()
    sequence = models.BigIntegerField()
    hash = models.CharField(max_length=64)
    stored_at = models.DateTimeField()

    class Meta:
        ordering = ["-day"]
        constraints = [models.UniqueConstraint(fields=["organisation", "day"], name="chainroot_once_a_day")]

    def __str__(self) -> str:
        return f"{self.day} {self.hash[:12]}"


class Entry(models.Model):
    """One side of a transaction. The amount is never zero.

    `number` is the entry's position in the account, and `balance` is the running sum. A trigger writes both columns.
    """

    id = models.BigAutoField(primary_key=True)
    transaction = models.ForeignKey(Transaction, on_delete=models.PROTECT, related_name="entries")
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="entries")
    amount = _amount()
    number = models.BigIntegerField(default=0)
    balance = _amount(default=0)

    organisation_path: ClassVar[str] = "transaction__organisation"

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~models.Q(amount=0), name="entry_not_zero"),
            models.UniqueConstraint(fields=["account", "number"], include=["balance"], name="entry_number_once"),
        ]

    def __str__(self) -> str:
        return f"{self.account_id} {self.amount}"


class HoldState(models.TextChoices):
    """The state of a hold. Usage can be posted only against a pending hold; the other states are final."""

    PENDING = "pending", "Pending"
    POSTED = "posted", "Posted"
    RELEASED = "released", "Released"
    EXPIRED = "expired", "Expired"


class Hold(models.Model):
    """The maximum cost of a contract, set aside on acceptance. The remainder is released at `expires_at`."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="holds")
    contract_id = models.UUIDField(unique=True)
    amount = _amount()
    posted = _amount(default=0)
    currency = models.CharField(max_length=3)
    state = models.CharField(max_length=10, choices=HoldState, default=HoldState.PENDING)
    idempotency_key = models.CharField(max_length=160)
    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, null=True, related_name="holds")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organisation", "idempotency_key"], name="hold_key_once"),
            models.CheckConstraint(
                condition=models.Q(amount__gt=0, posted__gte=0, posted__lte=models.F("amount")), name="hold_within"
            ),
            models.CheckConstraint(
                condition=models.Q(state="pending", closed_at__isnull=True)
                | models.Q(state__in=["posted", "released", "expired"], closed_at__isnull=False),
                name="hold_closed_with_its_state",
            ),
        ]
        indexes = [
            models.Index(fields=["organisation", "state"], name="hold_open"),
            models.Index(fields=["expires_at"], name="hold_expiring", condition=models.Q(state="pending")),
        ]

    def __str__(self) -> str:
        return f"{self.state} {self.amount} {self.currency}"


class HoldShare(models.Model):
    """A project's share of a hold, which counts towards the project's own cap."""

    id = models.BigAutoField(primary_key=True)
    hold = models.ForeignKey(Hold, on_delete=models.PROTECT, related_name="shares")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, related_name="+")
    amount = _amount()
    posted = _amount(default=0)

    organisation_path: ClassVar[str] = "hold__organisation"

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["hold", "project"], name="holdshare_once"),
            models.CheckConstraint(
                condition=models.Q(amount__gt=0, posted__gte=0, posted__lte=models.F("amount")), name="holdshare_within"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project_id} {self.amount}"


class UsageRow(models.Model):
    """The usage and cost of one lease. A row never changes.

    The transaction's detail contains the digest of the row, or one digest of all rows of the transaction.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(
        Organisation, on_delete=models.PROTECT, db_constraint=False, db_index=False, related_name="usage_rows"
    )
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
    token_id = models.UUIDField(null=True)
    model_name = models.CharField(max_length=200)
    klass = models.CharField(max_length=20)
    rating = DocumentField()
    unused = models.BooleanField()
    amount = _amount()
    currency = models.CharField(max_length=3)
    occurred_from = models.DateTimeField()
    occurred_to = models.DateTimeField()
    created_at = models.DateTimeField()
    transaction = models.ForeignKey(Transaction, on_delete=models.PROTECT, db_constraint=False, related_name="usages")

    class Meta:
        ordering = ["occurred_from", "id"]
        constraints = [
            models.UniqueConstraint(fields=["organisation", "idempotency_key"], name="usage_key_once"),
            models.CheckConstraint(condition=models.Q(quantity__gt=0, amount__gt=0), name="usage_is_something"),
            models.CheckConstraint(
                condition=models.Q(occurred_to__gte=models.F("occurred_from")), name="usage_period_forward"
            ),
        ]
        indexes = [
            models.Index(fields=["organisation", "occurred_from"], name="usage_by_time"),
            models.Index(fields=["organisation", "-created_at", "-id"], name="usage_by_record"),
        ]

    def __str__(self) -> str:
        return f"{self.quantity} x {self.model_name}: {self.amount} {self.currency}"


class UsageSum(models.Model):
    """Sums of usage rows by contract, program and quarter-hour.

    `recorded_at` and `occurred_at` are rounded down to the quarter-hour in UTC. A trigger updates the sums.
    """

    id = models.BigAutoField(primary_key=True)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, db_index=False, related_name="+")
    recorded_at = models.DateTimeField()
    occurred_at = models.DateTimeField()
    currency = models.CharField(max_length=3)
    contract_id = models.UUIDField(db_index=True)
    program_digest = models.CharField(max_length=64)
    project_id = models.UUIDField(null=True)
    token_id = models.UUIDField(null=True)
    model_name = models.CharField(max_length=200)
    klass = models.CharField(max_length=20)
    unused = models.BooleanField()
    quantity = models.DecimalField(max_digits=40, decimal_places=0)
    operations = models.DecimalField(max_digits=50, decimal_places=0)
    billed_operations = models.DecimalField(max_digits=50, decimal_places=0)
    amount = _amount()
    rows = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "organisation",
                    "recorded_at",
                    "occurred_at",
                    "currency",
                    "contract_id",
                    "program_digest",
                    "project_id",
                    "token_id",
                    "model_name",
                    "klass",
                    "unused",
                ],
                nulls_distinct=False,
                name="usagesum_once",
            )
        ]
        indexes = [
            models.Index(fields=["recorded_at"], name="usagesum_by_record"),
            models.Index(fields=["occurred_at"], name="usagesum_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.rows} rows of {self.recorded_at:%Y-%m-%d %H:%M}: {self.amount} {self.currency}"


class Spend(models.Model):
    """The usage in a calendar month (UTC), by project and API token. A trigger updates the amounts.

    A usage row counts in the month of its posting, clamped to the months in which the hold existed, so that a jumping
    clock cannot hide usage from a cap.
    """

    id = models.BigAutoField(primary_key=True)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="+")
    month = models.DateField()
    currency = models.CharField(max_length=3)
    project_id = models.UUIDField(null=True)
    token_id = models.UUIDField(null=True)
    amount = _amount()
    rows = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organisation", "month", "currency", "project_id", "token_id"],
                nulls_distinct=False,
                name="spend_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.month:%Y-%m} {self.amount} {self.currency}"


class Cap(models.Model):
    """The most that an organisation, a project or an API token may spend in one currency in a calendar month (UTC).

    Usage and open holds both count. If a cap exists in one currency, nothing is accepted in a currency without a cap.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="caps")
    project = models.ForeignKey(Project, on_delete=models.PROTECT, null=True, related_name="+")
    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, null=True, related_name="+")
    amount = _amount()
    currency = models.CharField(max_length=3)
    set_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(amount__gte=0), name="cap_not_negative"),
            models.CheckConstraint(
                condition=models.Q(project__isnull=True) | models.Q(token__isnull=True), name="cap_one_scope"
            ),
            models.UniqueConstraint(
                fields=["organisation", "project", "token", "currency"],
                nulls_distinct=False,
                name="cap_once_a_scope_and_currency",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.scope}: {self.amount} {self.currency} a month"

    @property
    def scope(self) -> str:
        if self.project_id is not None:
            return "project"
        return "organisation" if self.token_id is None else "token"


class OutboxRow(models.Model):
    """An outbox message, written in the same transaction as the reported change."""

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
