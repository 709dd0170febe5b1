"""Quotes and the contracts that they become. A quote never changes; of a contract only what is left of it does."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any, ClassVar

from django.conf import settings
from django.db import models

from apps.accounts.models import Organisation
from apps.compilation.models import Program
from apps.fleet.models import Pool


def _amount() -> models.DecimalField[Any, Any]:
    return models.DecimalField(max_digits=72, decimal_places=40)


class QuoteState(models.TextChoices):
    """An open quote may have passed its validity; ask `is_valid`."""

    OPEN = "open", "Open"
    ACCEPTED = "accepted", "Accepted"


class Quote(models.Model):
    """An offer: the document with every line and step, its digest, and until when its price is locked."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="quotes")
    plan_id = models.UUIDField(null=True, db_index=True)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    klass = models.CharField(max_length=20)
    document = models.JSONField()
    digest = models.CharField(max_length=64)
    expected = _amount()
    worst = _amount()
    currency = models.CharField(max_length=3)
    created_at = models.DateTimeField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    valid_until = models.DateTimeField()
    share_token = models.CharField(max_length=64, unique=True)
    state = models.CharField(max_length=10, choices=QuoteState, default=QuoteState.OPEN)

    class Meta:
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["organisation", "-created_at"], name="quote_by_time")]

    def __str__(self) -> str:
        return f"quote {self.id}"

    def is_valid(self, *, now: datetime) -> bool:
        """May still be accepted."""
        return self.state == QuoteState.OPEN and now < self.valid_until

    def shown_state(self, *, now: datetime) -> str:
        """The state in one word for people."""
        return "expired" if self.state == QuoteState.OPEN and now >= self.valid_until else self.state


class ContractState(models.TextChoices):
    """Active: may run. Used: every execution is used. Ended: its time is over, what was left was given back."""

    ACTIVE = "active", "Active"
    USED = "used", "Used up"
    ENDED = "ended", "Ended"


class Contract(models.Model):
    """An accepted quote: frozen terms with their digest, a reservation and a hold."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="contracts")
    quote = models.OneToOneField(Quote, on_delete=models.PROTECT, related_name="contract")
    plan_id = models.UUIDField(null=True, db_index=True)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="contracts")
    klass = models.CharField(max_length=20)
    terms = models.JSONField()
    terms_digest = models.CharField(max_length=64)
    reservation_id = models.UUIDField()
    net = _amount()
    currency = models.CharField(max_length=3)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    state = models.CharField(max_length=10, choices=ContractState, default=ContractState.ACTIVE)
    accepted_at = models.DateTimeField()
    accepted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-accepted_at"]
        indexes = [
            models.Index(fields=["organisation", "-accepted_at"], name="contract_by_time"),
            models.Index(fields=["state", "ends_at"], name="contract_to_end"),
        ]
        constraints = [
            models.CheckConstraint(condition=models.Q(ends_at__gt=models.F("starts_at")), name="contract_half_open"),
        ]

    def __str__(self) -> str:
        return f"contract {self.id}"

    @property
    def not_after(self) -> datetime:
        """First instant at which nothing of it may run any more."""
        return self.ends_at


class ContractLine(models.Model):
    """A program of a contract: how many executions were bought, promised to jobs, and used."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    contract = models.ForeignKey(Contract, on_delete=models.PROTECT, related_name="lines")
    number = models.PositiveSmallIntegerField()
    program = models.ForeignKey(Program, on_delete=models.PROTECT, related_name="contract_lines")
    program_digest = models.CharField(max_length=64)
    executions = models.BigIntegerField()
    taken = models.BigIntegerField(default=0)

    organisation_path: ClassVar[str] = "contract__organisation"

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["contract", "number"], name="contractline_number_once"),
            models.UniqueConstraint(fields=["contract", "program_digest"], name="contractline_program_once"),
            models.CheckConstraint(
                condition=models.Q(executions__gt=0, taken__gte=0, taken__lte=models.F("executions")),
                name="contractline_within_volume",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.executions} x {self.program_digest[:12]}"

    @property
    def left(self) -> int:
        """Executions that no job has taken yet."""
        return self.executions - self.taken
