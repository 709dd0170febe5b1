"""Jobs, their stages and their leases. A lease is a block of a job's items, placed in a device's timetable."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import ClassVar

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import RangeOperators
from django.db import models
from django.db.models import F, Func

from apps.accounts.counters import Numbered
from apps.accounts.models import ApiToken, NumberKind, Organisation, User
from apps.compilation.models import Program
from apps.dispatch.devicetime import Pace
from apps.fleet.models import Device, Pool
from apps.sales.models import Contract
from apps.timetable.models import Window


class JobState(models.TextChoices):
    """The state of a job. A job is queued until its first lease runs. The last three states are final."""

    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


FINAL = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})


class Job(Numbered):
    """A job: items that run under a contract. Inputs and outputs are .npz files, with the items along the first axis of
    each array.

    A job without an input file has a `seed`, from which the inputs are generated.
    """

    number_kind = NumberKind.JOB

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="jobs")
    contract = models.ForeignKey(Contract, on_delete=models.PROTECT, related_name="jobs")
    submitted_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, null=True, related_name="+")
    items = models.PositiveBigIntegerField()
    state = models.CharField(max_length=10, choices=JobState, default=JobState.QUEUED)
    # Sample data of a demonstration: its leases are completed by the counts that the compiler proved, and no worker runs them.
    is_sample = models.BooleanField(default=False, db_default=False)
    threshold = models.DecimalField(max_digits=12, decimal_places=10, null=True)
    confidence_output = models.CharField(max_length=200, blank=True)
    inputs_key = models.CharField(max_length=200, blank=True)
    seed = models.PositiveBigIntegerField(null=True, blank=True)
    outputs_key = models.CharField(max_length=200, blank=True)
    problem = models.TextField(blank=True)
    submitted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["organisation", "-submitted_at"], name="job_of_organisation"),
            models.Index(fields=["state"], name="job_open", condition=models.Q(state__in=["queued", "running"])),
        ]
        constraints = [
            models.CheckConstraint(condition=models.Q(items__gt=0), name="job_has_items"),
            models.UniqueConstraint(fields=["organisation", "number"], name="job_number_once"),
            models.CheckConstraint(
                condition=models.Q(state__in=["queued", "running"], finished_at__isnull=True)
                | models.Q(state__in=["done", "failed", "cancelled"], finished_at__isnull=False),
                name="job_finished_with_its_state",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.items} items, {self.state}"

    @property
    def is_final(self) -> bool:
        """Whether the job has ended. A final state never changes."""
        return self.state in FINAL


class StageState(models.TextChoices):
    """The state of a stage. A waiting stage has no place in the timetable yet."""

    WAITING = "waiting", "Waiting for room"
    RUNNING = "running", "Running"
    DONE = "done", "Done"


class JobStage(models.Model):
    """One stage of a job: one program that runs on some or all of the job's items.

    A cascade has up to three stages. Each later stage processes the items of which the previous stage was unsure
    (`selection_key`). An ensemble has three stages, each for all items. `unsure_left` is the number of unsure items
    that no further program processed.

    The pace is frozen here. On a host pool, a cycle is a nanosecond and the pace is a measured percentile.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    job = models.ForeignKey(Job, on_delete=models.PROTECT, related_name="stages")
    position = models.PositiveSmallIntegerField()
    program = models.ForeignKey(Program, on_delete=models.PROTECT, related_name="+")
    count = models.PositiveBigIntegerField()
    selection_key = models.CharField(max_length=200, blank=True)
    unsure_left = models.PositiveIntegerField(default=0)
    latency_cycles = models.BigIntegerField()
    interval_cycles = models.BigIntegerField()
    clock_hz = models.BigIntegerField()
    load_cycles = models.BigIntegerField(default=0, db_default=0)
    state = models.CharField(max_length=10, choices=StageState, default=StageState.RUNNING)
    waiting_reason = models.CharField(max_length=400, blank=True)

    organisation_path: ClassVar[str] = "job__organisation"

    class Meta:
        ordering = ["job", "position"]
        constraints = [models.UniqueConstraint(fields=["job", "position"], name="jobstage_once")]

    def __str__(self) -> str:
        return f"{self.job_id} stage {self.position}"

    @property
    def pace(self) -> Pace:
        return Pace(self.latency_cycles, self.interval_cycles, self.clock_hz, self.load_cycles)


class JobLabels(models.Model):
    """The result of comparing a job's output with labels: `correct` of `total` items are right according to `metric`.

    `digest` is the digest of the label file, which is not stored.
    """

    job = models.OneToOneField(Job, on_delete=models.PROTECT, primary_key=True, related_name="labels")
    digest = models.CharField(max_length=64)
    metric = models.CharField(max_length=240)
    output = models.CharField(max_length=200)
    correct = models.PositiveIntegerField()
    total = models.PositiveIntegerField()
    added_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    added_at = models.DateTimeField()

    organisation_path: ClassVar[str] = "job__organisation"

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(total__gt=0, correct__lte=models.F("total")), name="joblabels_share"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.correct}/{self.total} {self.metric}"


class LeaseState(models.TextChoices):
    """The state of a lease. A planned lease is offered at its device time and runs when a worker claims it. Revoked and
    failed leases never run again.
    """

    PLANNED = "planned", "Planned"
    OFFERED = "offered", "Offered"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    REVOKED = "revoked", "Revoked"
    FAILED = "failed", "Failed"


LIVE = (LeaseState.PLANNED, LeaseState.OFFERED, LeaseState.RUNNING)
HOLDING = (*LIVE, LeaseState.DONE)

# Leases with device time that was planned or used and is not charged.
NOT_BILLED = models.Q(state__in=["revoked", "failed"]) | models.Q(epoch__gt=1)


class Lease(models.Model):
    """A lease: the items [from_item, from_item + count) of a stage. The first item issues at the window's cycle
    `first_cycle`.

    `epoch` is the fencing token, which grows whenever the lease is offered again. Only the worker with the current
    epoch may renew or complete the lease.

    `device_from` and `device_to` are exact instants, rounded down to microseconds. `wall_ns` is the execution time on
    the host. `is_missed`: the lease failed and the platform was at fault.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    stage = models.ForeignKey(JobStage, on_delete=models.PROTECT, related_name="leases")
    window = models.ForeignKey(Window, on_delete=models.PROTECT, related_name="leases")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="leases")
    from_item = models.PositiveBigIntegerField()
    count = models.PositiveBigIntegerField()
    first_cycle = models.BigIntegerField()
    next_cycle = models.BigIntegerField()
    epoch = models.PositiveIntegerField(default=1)
    state = models.CharField(max_length=10, choices=LeaseState, default=LeaseState.PLANNED)
    device_from = models.DateTimeField()
    device_to = models.DateTimeField()
    offered_at = models.DateTimeField(null=True, blank=True)
    taken_at = models.DateTimeField(null=True, blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    host = models.CharField(max_length=120, blank=True)
    progress = models.PositiveBigIntegerField(default=0)
    counters = models.JSONField(null=True, blank=True)
    outputs_key = models.CharField(max_length=200, blank=True)
    wall_ns = models.BigIntegerField(null=True, blank=True)
    is_missed = models.BooleanField(default=False)

    organisation_path: ClassVar[str] = "stage__job__organisation"

    class Meta:
        ordering = ["stage", "from_item"]
        constraints = [
            ExclusionConstraint(
                name="lease_cycle_once",
                expressions=[
                    (F("window"), RangeOperators.EQUAL),
                    (Func(F("first_cycle"), F("next_cycle"), function="int8range"), RangeOperators.OVERLAPS),
                ],
                condition=models.Q(state__in=[state.value for state in HOLDING]),
            ),
            ExclusionConstraint(
                name="lease_item_once",
                expressions=[
                    (F("stage"), RangeOperators.EQUAL),
                    (
                        Func(F("from_item"), F("from_item") + F("count"), function="int8range"),
                        RangeOperators.OVERLAPS,
                    ),
                ],
                condition=models.Q(state__in=[state.value for state in HOLDING]),
            ),
            models.CheckConstraint(
                condition=models.Q(count__gt=0, first_cycle__gte=0, next_cycle__gt=F("first_cycle")),
                name="lease_is_something",
            ),
            models.CheckConstraint(
                condition=models.Q(is_missed=False) | models.Q(state="failed"), name="lease_missed_has_failed"
            ),
        ]
        indexes = [
            models.Index(
                fields=["state", "device_from"],
                name="lease_due",
                condition=models.Q(state__in=[state.value for state in LIVE]),
            ),
            models.Index(fields=["device", "device_from"], name="lease_of_device"),
            models.Index(fields=["device", "device_to"], name="lease_ended_on_device"),
            models.Index(fields=["taken_at"], name="lease_by_taking"),
            models.Index(fields=["device_from"], name="lease_done_from", condition=models.Q(state="done")),
            models.Index(fields=["finished_at"], name="lease_not_billed", condition=NOT_BILLED),
        ]

    def __str__(self) -> str:
        return f"{self.from_item}+{self.count} {self.state}"

    def is_silent(self, *, now: datetime, after_seconds: float) -> bool:
        """Whether the lease is running but its worker has sent no heartbeat for more than `after_seconds`."""
        heard = self.heartbeat_at or self.taken_at
        return self.state == LeaseState.RUNNING and heard is not None and (now - heard).total_seconds() > after_seconds


class DeviceHour(models.Model):
    """The summed device time of finished leases that began in the same hour (UTC).

    `cycles` counts from the first issue of each lease to the first issue of the next lease, at `clock_hz`. On a host
    pool, cycles are microseconds of wall-clock time. `klass` is the class of service that was delivered. `until` is the
    latest end of the leases. A database trigger maintains the rows.
    """

    id = models.BigAutoField(primary_key=True)
    hour = models.DateTimeField()
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="+")
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="+")
    klass = models.CharField(max_length=20)
    clock_hz = models.BigIntegerField()
    cycles = models.DecimalField(max_digits=40, decimal_places=0)
    leases = models.BigIntegerField()
    until = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "pool", "organisation", "klass", "clock_hz"], name="devicehour_once"
            )
        ]
        indexes = [models.Index(fields=["until"], name="devicehour_by_end")]

    def __str__(self) -> str:
        return f"{self.leases} leases of {self.hour:%Y-%m-%d %H}:00"
