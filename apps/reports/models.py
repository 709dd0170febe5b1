"""Reconciliations that were made: when, of what, and what they found. Never changed once they are finished."""

from __future__ import annotations

import uuid

from django.db import models

from apps.accounts.models import Organisation, User


class ReconciliationRun(models.Model):
    """One comparison of everything that was executed with everything that was metered, rated, posted and invoiced.

    `stripe` is null where no key is set: {"rows": our counts and sums beside Stripe's, "differences": sentences}. A run
    without `finished_at` is under way, or its worker died.
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
    """What a run found in one organisation: `stages` in the order in which money passes them, each
    {"name", "rows", "executions", "amounts": {currency: amount}}, and every difference in a sentence."""

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
    """What an hour of owning one device of a processor class costs, from an instant on, until the next one begins.

    Rows are only ever added (a trigger): of several that begin at one instant the one entered last holds. Before the first
    one begins the cost is not known, which is another thing than 0.
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
    """The usage of a month rated again by another price book, published or not; a worker carries it out row by row.

    `result` is null until it is finished: {"whole": part, "pool": [part], "class": [part], "customer": [part]}, each part
    {"name", "executions", "amount", "other", "unpriced"} with amounts as texts. Usage recorded from `until` on is left out,
    so that asking again gives the same answer.
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
    """How few devices of each pool would hold what was sold at `asked_at`, with a bound; a worker makes it.

    `result` is null until it is finished: {"currency", "pools": [see `capacity_plans.arithmetic.pool_plan`], "left_out":
    sentences}. `inputs_digest`: SHA-256 of the facts that it started from. A cancelled one is finished without a result.
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


class ForecastRun(models.Model):
    """The demand of every pool continued by a worker, once a day or when somebody asks.

    `result` is null until it is finished: a list with one entry for each pool and dimension, as `forecasts.py` writes it. Use is
    read before `until`, a whole hour.
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
    """Requests of another system, as uploaded: how many by hour, and by second in their last 24 hours."""

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
    """A question about the fleet, and its answer: the difference between the plan of now and the one with the change.

    `change` is as `changes.py` writes it. `result` is null until a worker is done: a list with one entry for each pool.
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
