"""The database models of reports: reconciliations, cost rates, re-ratings, capacity plans, the controller, forecasts
and what-ifs.
"""

from __future__ import annotations

import uuid

from django.db import models

from apps.accounts.models import Organisation, User
from apps.fleet.models import FleetChange, Pool


class ReconciliationRun(models.Model):
    """A reconciliation, which compares all executed work with all metered, rated, posted and invoiced work.

    `stripe` is {"rows", "differences"}: our counts and sums beside Stripe's, and sentences about differences. It is
    null if no Stripe key is set. A run without `finished_at` is in progress, or its worker died. A finished run never
    changes.
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
    """The result of a run for one organisation. `stages` lists {"name", "rows", "executions", "amounts": {currency:
    amount}} in the order in which work passes through the stages. `differences` is a list of sentences.
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
    """The cost of owning one device of a processor class for an hour. It applies from `effective_from` until the next
    rate of the class starts.

    Rows can only be added; a trigger enforces this rule. If several rates start together, the rate entered last
    applies. Before the first rate starts, the cost is unknown, not 0.
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
    """A re-rating: a worker rates the usage of a month again, row by row, with another price book, published or not.

    `result` is null until the re-rating is finished. It is then {"whole": part, "pool": [part], "class": [part],
    "customer": [part]}. Each part is {"name", "executions", "amount", "other", "unpriced"}, with amounts as text. Usage
    recorded at or after `until` is left out, so that a repeated run gives the same result.
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
    """A capacity plan: how many devices of each pool would be enough for the work sold by `asked_at`, with a lower
    bound.

    A worker makes the plan. `result` is null until the plan is finished. It is then {"currency", "pools", "left_out"}:
    each item of `pools` comes from `capacity_plans.arithmetic.pool_plan`, and `left_out` is a list of sentences.
    `inputs_digest` is the SHA-256 digest of the plan's inputs. A cancelled plan has `finished_at` but no result.
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
    """The controller's mode and limits for a pool (`controller.limits.Limits`). Without a rule, the controller only
    proposes.
    """

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
    """The states of a proposal. A refused proposal is opened again if a later plan repeats it."""

    OPEN = "open", "Open"
    APPLIED = "applied", "Applied"
    REFUSED = "refused", "Refused"
    DISMISSED = "dismissed", "Dismissed"
    SUPERSEDED = "superseded", "Superseded"


class ControllerProposal(models.Model):
    """A proposal from a capacity plan, stored by the controller. `facts` is a copy of the proposal in the plan.

    `reason` says why an open proposal was not applied, or why the proposal was refused. `change` is the fleet change
    that applied the proposal; `moved` devices changed state in it. `settled_by` is null if the controller closed the
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
    """A forecast of the demand on every pool. A worker makes it once a day and on request.

    `result` is null until the forecast is finished. It is then a list with an entry for each pool and dimension, as in
    `forecasts.entry_of`. The forecast is based on usage before `until`, a full hour.
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
    """A what-if, which compares the present fleet with the fleet after a change.

    `change` has the form of `changes.Change`. `result` is null until a worker has finished. It is then a list with an
    entry for each pool.
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
