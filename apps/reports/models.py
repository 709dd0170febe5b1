"""The database models of reports."""

from __future__ import annotations

import uuid

from django.db import models

from apps.accounts.models import Organisation, User
from apps.fleet.models import FleetChange, Pool


class ReconciliationRun(models.Model):
    """A reconciliation of all executed, metered, rated, posted and invoiced work.

    `stripe` compares our counts and sums with Stripe's; null if no Stripe key is set. A run without `finished_at` is in
    progress, or its worker died. A finished run never changes.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    asked_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    organisations = models.PositiveIntegerField(default=0)
    differences = models.PositiveIntegerField(default=0)
    stripe = models.JSONField(null=True, blank=True)

    class Meta:
        ordering = ["-started_at", "id"]

    def __str__(self) -> str:
        return f"{self.started_at:%Y-%m-%d %H:%M}: {self.differences} differences"


class ReconciliationRow(models.Model):
    """The result of a run for one organisation. `stages` lists rows, executions and amounts in the order in which work
    passes through the stages. `differences` is a list of sentences.
    """

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(ReconciliationRun, on_delete=models.PROTECT, related_name="rows")
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="+")
    stages = models.JSONField()
    differences = models.JSONField(default=list)
    compared_at = models.DateTimeField()

    class Meta:
        ordering = ["run", "id"]
        constraints = [
            models.UniqueConstraint(fields=["run", "organisation"], name="reconciliationrow_once"),
        ]

    def __str__(self) -> str:
        return f"{self.organisation_id}: {len(self.differences)} differences"


class CostRate(models.Model):
    """The cost of owning one device of a processor class for an hour, from `effective_from` until the next rate starts.

    Rows can only be added. If several rates start together, the rate entered last applies.
    """

    id = models.BigAutoField(primary_key=True)
    processor_class = models.CharField(max_length=20)
    currency = models.CharField(max_length=3)
    per_hour = models.DecimalField(max_digits=24, decimal_places=12)
    effective_from = models.DateTimeField()
    note = models.CharField(max_length=200, blank=True)
    set_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    set_at = models.DateTimeField()

    class Meta:
        ordering = ["processor_class", "-effective_from", "-id"]
        constraints = [
            models.CheckConstraint(condition=models.Q(per_hour__gt=0), name="costrate_is_something"),
        ]
        indexes = [models.Index(fields=["currency", "processor_class", "effective_from"], name="costrate_in_force")]

    def __str__(self) -> str:
        return f"{self.processor_class}: {self.per_hour} {self.currency} an hour from {self.effective_from:%Y-%m-%d}"


class Rerating(models.Model):
    """A re-rating: a month's usage, rated with another price book.

    `result` is null until the re-rating is finished. Usage recorded at or after `until` is left out.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    asked_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    version = models.PositiveIntegerField()
    document = models.JSONField()
    currency = models.CharField(max_length=3)
    start = models.DateTimeField()
    until = models.DateTimeField()
    rows_total = models.PositiveIntegerField()
    rows_done = models.PositiveIntegerField(default=0)
    result = models.JSONField(null=True, blank=True)
    asked_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-asked_at", "id"]

    def __str__(self) -> str:
        return f"{self.start:%Y-%m} by price book {self.version}: {self.rows_done} of {self.rows_total} rows"


class CapacityPlan(models.Model):
    """A capacity plan: a number of devices that suffices for the sold work, and a lower bound on the number needed.

    `result` is null until the plan is finished. A cancelled plan has `finished_at` but no result.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    asked_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    asked_at = models.DateTimeField()
    percent = models.PositiveSmallIntegerField(default=0)
    inputs_digest = models.CharField(max_length=64, blank=True)
    result = models.JSONField(null=True, blank=True)
    is_cancelled = models.BooleanField(default=False)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-asked_at", "id"]
        indexes = [models.Index(fields=["-asked_at"], name="capacityplan_by_time")]

    def __str__(self) -> str:
        return f"capacity plan of {self.asked_at:%Y-%m-%d %H:%M}"


class ControllerMode(models.TextChoices):
    """What the controller may do for a pool."""

    OFF = "off", "Off"
    PROPOSES = "proposes", "Proposes"
    APPLIES = "applies", "Applies within limits"


class ControllerRule(models.Model):
    """The controller's mode and limits for a pool. Without a rule, the controller only proposes changes."""

    pool = models.OneToOneField(Pool, on_delete=models.PROTECT, primary_key=True, related_name="+")
    mode = models.CharField(max_length=10, choices=ControllerMode, default=ControllerMode.PROPOSES)
    power_least = models.PositiveSmallIntegerField(default=50)
    power_most = models.PositiveSmallIntegerField(default=100)
    devices_a_day = models.PositiveIntegerField(default=1)
    from_hour = models.PositiveSmallIntegerField(default=0)
    until_hour = models.PositiveSmallIntegerField(default=24)
    payback_hours = models.PositiveIntegerField(default=24)
    set_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    set_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(power_least__gte=1, power_least__lte=models.F("power_most"), power_most__lte=100),
                name="controllerrule_power",
            ),
            models.CheckConstraint(
                condition=models.Q(from_hour__lte=23, until_hour__range=(1, 24))
                & ~models.Q(from_hour=models.F("until_hour")),
                name="controllerrule_hours",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pool_id}: {self.mode}"


class ProposalState(models.TextChoices):
    """The states of a proposal."""

    OPEN = "open", "Open"
    APPLIED = "applied", "Applied"
    REFUSED = "refused", "Refused"
    DISMISSED = "dismissed", "Dismissed"
    SUPERSEDED = "superseded", "Superseded"


class ControllerProposal(models.Model):
    """A proposal from a capacity plan. `facts` is a copy of the proposal in the plan.

    `reason` says why the proposal was not applied or was refused. `change` is the fleet change that applied the
    proposal, and `moved` is the number of devices that changed state. `settled_by` is null if the controller closed the
    proposal.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    plan = models.ForeignKey(CapacityPlan, on_delete=models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    kind = models.CharField(max_length=10)
    facts = models.JSONField()
    state = models.CharField(max_length=10, choices=ProposalState, default=ProposalState.OPEN)
    reason = models.TextField(blank=True)
    made_at = models.DateTimeField()
    settled_at = models.DateTimeField(null=True, blank=True)
    settled_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    change = models.OneToOneField(FleetChange, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    moved = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-made_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["pool", "kind"],
                condition=models.Q(state=ProposalState.OPEN),
                name="controllerproposal_one_open",
            ),
            models.CheckConstraint(
                condition=models.Q(state=ProposalState.APPLIED, change__isnull=False)
                | (~models.Q(state=ProposalState.APPLIED) & models.Q(change__isnull=True)),
                name="controllerproposal_applied_by_a_change",
            ),
        ]
        indexes = [models.Index(fields=["-made_at", "-id"], name="controllerproposal_by_time")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.pool_id}: {self.state}"


class ForecastRun(models.Model):
    """A forecast of the demand on every pool, based on usage before `until` (a full hour).

    `result` is null until the forecast is finished.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    asked_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    asked_at = models.DateTimeField()
    until = models.DateTimeField()
    fits_total = models.PositiveIntegerField(default=0)
    fits_done = models.PositiveIntegerField(default=0)
    result = models.JSONField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-asked_at", "id"]

    def __str__(self) -> str:
        return f"{self.asked_at:%Y-%m-%d %H:%M}: {self.fits_done} of {self.fits_total} fits"


class DemandTrace(models.Model):
    """An uploaded trace of another system: the number of requests by hour, and by second for the last 24 hours."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=120)
    format = models.CharField(max_length=10)
    requests = models.FloatField()
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()
    hours = models.JSONField()
    seconds = models.BinaryField()
    ignored = models.JSONField(default=list)
    uploaded_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    uploaded_at = models.DateTimeField()

    class Meta:
        ordering = ["-uploaded_at", "id"]

    def __str__(self) -> str:
        return self.name


class WhatIf(models.Model):
    """A what-if, which compares the current fleet with the fleet after a change.

    `result` is null until a worker has finished.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    asked_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    asked_at = models.DateTimeField()
    change = models.JSONField()
    currency = models.CharField(max_length=3)
    trace = models.ForeignKey(DemandTrace, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    rerating = models.ForeignKey(Rerating, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    steps_total = models.PositiveIntegerField(default=0)
    steps_done = models.PositiveIntegerField(default=0)
    result = models.JSONField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    cancelled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-asked_at", "id"]

    def __str__(self) -> str:
        return f"{self.asked_at:%Y-%m-%d %H:%M}: {self.steps_done} of {self.steps_total} steps"
