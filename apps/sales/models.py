"""Quotes, contracts and commitments."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models
from django.utils.functional import cached_property

from apps.accounts.counters import Numbered
from apps.accounts.models import NumberKind, Organisation
from apps.compilation.models import Program
from apps.fleet.models import Pool
from apps.pricing.rating import PriceBookDocument
from apps.pricing.selectors import book_of_digest
from apps.sales.hold_models import PlanHold
from apps.sales.revision_models import ContractReview
from apps.sales.standing_models import QuotaNode, StandingRequest, StandingState

__all__ = [
    "BuyingRules",
    "Commitment",
    "Contract",
    "ContractLine",
    "ContractQuota",
    "ContractReview",
    "ContractState",
    "FormName",
    "OrganisationStanding",
    "PlanHold",
    "QuotaNode",
    "Quote",
    "QuoteState",
    "StandingRequest",
    "StandingState",
]


def _amount(**options: Any) -> models.DecimalField[Any, Any]:
    return models.DecimalField(max_digits=72, decimal_places=40, **options)


class FormName(models.TextChoices):
    """The forms in which a volume is sold."""

    EXECUTION = "execution", "Per execution"
    QUOTA = "quota", "Raw quota"
    SPREAD = "spread", "Spread over a period"
    INTERVAL = "interval", "Granular interval"


class Commitment(models.Model):
    """A commitment to spend at least `minimum` every month, in return for a price factor."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="commitments")
    kind = models.CharField(max_length=40)  # as the price book names it: month, year, three_years
    period = DateTimeRangeField()
    minimum = _amount()
    currency = models.CharField(max_length=3)
    factor = models.DecimalField(max_digits=5, decimal_places=4)
    book_digest = models.CharField(max_length=64)
    accepted_at = models.DateTimeField()
    accepted_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        ordering = ["-accepted_at"]
        constraints = [
            ExclusionConstraint(
                name="commitment_one_in_each_currency",
                expressions=[
                    ("organisation", RangeOperators.EQUAL),
                    ("currency", RangeOperators.EQUAL),
                    ("period", RangeOperators.OVERLAPS),
                ],
            ),
            models.CheckConstraint(
                condition=models.Q(minimum__gt=0, factor__gt=0, factor__lte=1), name="commitment_is_something"
            ),
            models.CheckConstraint(
                condition=models.Q(
                    period__isempty=False,
                    period__lower_inc=True,
                    period__upper_inc=False,
                    period__lower_inf=False,
                    period__upper_inf=False,
                ),
                name="commitment_half_open",
            ),
        ]

    def __str__(self) -> str:
        return f"commitment {self.kind} of {self.minimum} {self.currency}"

    @property
    def starts_at(self) -> datetime:
        lower: datetime = self.period.lower
        return lower

    @property
    def ends_at(self) -> datetime:
        upper: datetime = self.period.upper
        return upper


class QuoteState(models.TextChoices):
    """The stored state of a quote. An open quote may have expired: see `is_valid`."""

    OPEN = "open", "Open"
    ACCEPTED = "accepted", "Accepted"
    WITHDRAWN = "withdrawn", "Withdrawn"


class Quote(Numbered):
    """An offer with an immutable document and a price lock."""

    number_kind = NumberKind.QUOTE

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="quotes")
    plan_id = models.UUIDField(null=True, db_index=True)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    klass = models.CharField(max_length=20)
    form = models.CharField(max_length=10, choices=FormName, default=FormName.EXECUTION)
    amends = models.ForeignKey("sales.Contract", on_delete=models.PROTECT, null=True, related_name="amendments")
    document = models.JSONField()
    digest = models.CharField(max_length=64)
    expected = _amount()
    worst = _amount()
    currency = models.CharField(max_length=3)
    created_at = models.DateTimeField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    valid_until = models.DateTimeField()
    share_token = models.CharField(max_length=64, unique=True, null=True)  # null: there is no link
    share_until = models.DateTimeField(null=True)
    state = models.CharField(max_length=10, choices=QuoteState, default=QuoteState.OPEN)

    class Meta:
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["organisation", "-created_at"], name="quote_by_time")]
        constraints = [models.UniqueConstraint(fields=["organisation", "number"], name="quote_number_once")]

    def __str__(self) -> str:
        return f"quote {self.id}"

    def is_shared(self, *, now: datetime) -> bool:
        """Return True if the share link works at `now`."""
        return self.share_token is not None and self.share_until is not None and now < self.share_until

    def is_valid(self, *, now: datetime) -> bool:
        """Return True if the quote can still be accepted."""
        return self.state == QuoteState.OPEN and now < self.valid_until

    def display_state(self, *, now: datetime) -> str:
        """Return the state to display. An open quote whose price lock has ended is `expired`."""
        return "expired" if self.state == QuoteState.OPEN and now >= self.valid_until else self.state


class ContractState(models.TextChoices):
    """The states of a contract.

    `active`: jobs may run. `used`: all executions were used. `ended`: the unused remainder was released.
    """

    ACTIVE = "active", "Active"
    USED = "used", "Used up"
    ENDED = "ended", "Ended"


class Contract(Numbered):
    """An accepted quote: frozen terms, a reservation and a hold."""

    number_kind = NumberKind.CONTRACT

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="contracts")
    quote = models.OneToOneField(Quote, on_delete=models.PROTECT, related_name="contract")
    plan_id = models.UUIDField(null=True, db_index=True)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="contracts")
    klass = models.CharField(max_length=20)
    form = models.CharField(max_length=10, choices=FormName, default=FormName.EXECUTION)
    commitment = models.ForeignKey(Commitment, on_delete=models.PROTECT, null=True, related_name="contracts")
    terms = models.JSONField()
    terms_digest = models.CharField(max_length=64)
    reservation_id = models.UUIDField()
    net = _amount()
    minimum = _amount(default=0)  # the part of `net` that is the shortfall against the contract minimum
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
            models.UniqueConstraint(fields=["organisation", "number"], name="contract_number_once"),
        ]

    def __str__(self) -> str:
        return f"contract {self.id}"

    @cached_property
    def book(self) -> PriceBookDocument:
        return book_of_digest(self.terms["book"]["digest"])

    @property
    def not_after(self) -> datetime:
        return self.ends_at


class ContractLine(models.Model):
    """A program of a contract. `taken`: the executions that jobs have reserved or used.

    In a quota contract, the first job of a program creates the line. In this line, `executions` is null and `facts` is
    the snapshot of the program at that time.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    contract = models.ForeignKey(Contract, on_delete=models.PROTECT, related_name="lines")
    number = models.PositiveSmallIntegerField()
    program = models.ForeignKey(Program, on_delete=models.PROTECT, related_name="contract_lines")
    program_digest = models.CharField(max_length=64)
    executions = models.BigIntegerField(null=True)
    taken = models.BigIntegerField(default=0)
    facts = models.JSONField(null=True)

    organisation_path: ClassVar[str] = "contract__organisation"

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["contract", "number"], name="contractline_number_once"),
            models.UniqueConstraint(fields=["contract", "program_digest"], name="contractline_program_once"),
            models.CheckConstraint(
                condition=models.Q(executions__gt=0, taken__gte=0, taken__lte=models.F("executions"))
                | models.Q(executions__isnull=True, taken__gte=0, facts__isnull=False),
                name="contractline_within_volume",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.executions} x {self.program_digest[:12]}"

    @property
    def left(self) -> int:
        return (self.executions or self.taken) - self.taken


class ContractQuota(models.Model):
    """The operations of a quota contract. `taken`: the operations that jobs have reserved or used."""

    contract = models.OneToOneField(Contract, on_delete=models.PROTECT, primary_key=True, related_name="quota")
    precision = models.CharField(max_length=10)
    operations = models.DecimalField(max_digits=40, decimal_places=0)
    taken = models.DecimalField(max_digits=40, decimal_places=0, default=0)

    organisation_path: ClassVar[str] = "contract__organisation"

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(operations__gt=0, taken__gte=0, taken__lte=models.F("operations")),
                name="contractquota_within_volume",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.operations} operations in {self.precision}"

    @property
    def left(self) -> int:
        return int(self.operations) - int(self.taken)


class BuyingRules(models.Model):
    """The general limits, in a single row. The row is created when an administrator first sets the limits."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    newcomer_credit = _amount(null=True)  # null: no limit
    pool_share = models.DecimalField(max_digits=5, decimal_places=4)
    horizon_days = models.PositiveSmallIntegerField()

    class Meta:
        constraints = [
            models.CheckConstraint(condition=models.Q(id=1), name="buyingrules_one_row"),
            models.CheckConstraint(
                condition=models.Q(pool_share__gt=0, pool_share__lte=1, horizon_days__gte=1), name="buyingrules_share"
            ),
        ]

    def __str__(self) -> str:
        return f"credit {self.newcomer_credit}, {self.pool_share} of {self.horizon_days} days"


class OrganisationStanding(models.Model):
    """An organisation as a buyer: payment method, approval and limits."""

    organisation = models.OneToOneField(
        Organisation, on_delete=models.PROTECT, primary_key=True, related_name="standing"
    )
    has_payment_method = models.BooleanField(default=False)
    is_approved = models.BooleanField(default=False)
    credit = _amount(null=True)
    pool_share = models.DecimalField(max_digits=5, decimal_places=4, null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(pool_share__isnull=True) | models.Q(pool_share__gt=0, pool_share__lte=1),
                name="organisationstanding_share",
            ),
        ]

    def __str__(self) -> str:
        return f"standing of {self.organisation_id}"
