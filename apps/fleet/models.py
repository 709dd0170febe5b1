"""Where work runs: processor versions, sites, pools of identical devices, and the hosts that serve the pools."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from fractions import Fraction

from django.conf import settings
from django.db import models

HOST_SILENT_AFTER = timedelta(seconds=20)


class PoolKind(models.TextChoices):
    """Whether execution times on a pool are proven or measured."""

    SIMULATED = "simulated", "Deterministic processor, executed by the simulator"
    HOST = "host", "This machine's own CPU; times are measured, not proven"


class DeviceState(models.TextChoices):
    """The state of a device. Only active devices accept new windows. A draining device keeps the windows that could not
    be moved. Failed and spare devices have no future windows.
    """

    ACTIVE = "active", "Active"
    DRAINING = "draining", "Draining"
    FAILED = "failed", "Failed"
    SPARE = "spare", "Spare"


class ProcessorVersion(models.Model):
    """A version of a processor. `digest` is the digest of the target's canonical description.

    `text` is the file of a custom processor, and empty if the processor ships with the compiler. If several versions
    have the same name, the fleet uses the version with `is_offered`.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=40)
    digest = models.CharField(max_length=64)
    clock_hz = models.BigIntegerField()
    memory_bytes = models.BigIntegerField()
    text = models.TextField(blank=True, default="")
    is_offered = models.BooleanField(default=False)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name", "digest"], name="processorversion_once"),
            models.UniqueConstraint(
                fields=["name"], condition=models.Q(is_offered=True), name="processorversion_offered_once"
            ),
            models.CheckConstraint(
                condition=models.Q(is_offered=False) | ~models.Q(text=""), name="processorversion_offered_has_file"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.digest[:12]}"


class Site(models.Model):
    """A location with its time zone. An inactive site has no pools."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=80)
    time_zone = models.CharField(max_length=60, default="UTC")
    is_active = models.BooleanField(default=True)

    def __str__(self) -> str:
        return self.name


class Pool(models.Model):
    """A pool of identical devices at one site, with one price class.

    `power_percent` is the pool's clock as a percentage of the processor's full clock. The percentage scales all times,
    but not cycle counts.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=10, choices=PoolKind)
    processor = models.ForeignKey(ProcessorVersion, on_delete=models.PROTECT, null=True, related_name="pools")
    processor_class = models.CharField(max_length=20)
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="pools")
    power_percent = models.PositiveSmallIntegerField(default=100)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(kind=PoolKind.SIMULATED, processor__isnull=False)
                | models.Q(kind=PoolKind.HOST, processor__isnull=True),
                name="pool_processor_fits_kind",
            ),
            models.CheckConstraint(condition=models.Q(power_percent__range=(1, 100)), name="pool_power_is_a_share"),
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def queue(self) -> str:
        """The Celery queue of the pool's leases."""
        return f"pool-{self.slug}"

    @property
    def target(self) -> str | None:
        """The compiler target of binaries that run on the pool; None for a host pool, which runs the model itself."""
        return self.processor.name if self.processor else None

    @property
    def slowdown(self) -> Fraction:
        """The ratio of execution times on this pool to execution times at the full clock."""
        return Fraction(100, self.power_percent)

    def clock_at(self, clock_hz: int) -> int:
        """Return the pool's clock in hertz. `clock_hz` is the processor's full clock."""
        return clock_hz * self.power_percent // 100

    @property
    def is_host(self) -> bool:
        """Whether the pool's latencies are measured rather than proven."""
        return self.kind == PoolKind.HOST


class Device(models.Model):
    """A device: one processor. Its time is sold in windows that never overlap.

    The device is owned during [`owned_from`, `owned_until`). If `owned_from` is null, the device has been owned since
    the pool was created. If `owned_until` is null, the device is still owned. A new device may have the same name as a
    retired device.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="devices")
    name = models.CharField(max_length=40)
    state = models.CharField(max_length=10, choices=DeviceState, default=DeviceState.ACTIVE)
    owned_from = models.DateTimeField(null=True, blank=True)
    owned_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["pool", "name"], condition=models.Q(owned_until__isnull=True), name="device_name_once"
            ),
            models.CheckConstraint(
                condition=models.Q(owned_until__isnull=True) | ~models.Q(state=DeviceState.ACTIVE),
                name="device_retired_is_off",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_active(self) -> bool:
        return self.state == DeviceState.ACTIVE


class PoolCost(models.Model):
    """The cost of owning a device of the pool, effective from a given time."""

    id = models.BigAutoField(primary_key=True)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="costs")
    begins = models.DateTimeField()
    currency = models.CharField(max_length=3)
    capital = models.DecimalField(max_digits=24, decimal_places=12)
    months = models.PositiveSmallIntegerField()
    watts = models.DecimalField(max_digits=24, decimal_places=12)
    energy_price = models.DecimalField(max_digits=24, decimal_places=12)
    pue = models.DecimalField(max_digits=24, decimal_places=12)

    class Meta:
        ordering = ["pool", "begins"]
        constraints = [
            models.UniqueConstraint(fields=["pool", "begins"], name="poolcost_once"),
            models.CheckConstraint(
                condition=models.Q(capital__gte=0, months__gt=0, watts__gte=0, energy_price__gte=0, pue__gte=1),
                name="poolcost_sane",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pool_id} from {self.begins:%Y-%m-%d}"


class FleetChange(models.Model):
    """A change to the whole fleet, from one document to another. Only the last change that is not undone can be undone.

    `moves` lists the moved windows as {"window", "from", "to"} with device ids. `made` and `retired` list the ids of
    the devices that the change added and removed. `lost` lists the windows that were lost because a device failed.
    """

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    note = models.CharField(max_length=200, blank=True)
    summary = models.CharField(max_length=400)
    before = models.JSONField()
    after = models.JSONField()
    before_digest = models.CharField(max_length=64)
    after_digest = models.CharField(max_length=64)
    moves = models.JSONField(default=list)
    made = models.JSONField(default=list)
    retired = models.JSONField(default=list)
    lost = models.JSONField(default=list, db_default=models.Value([], models.JSONField()))
    undone_at = models.DateTimeField(null=True, blank=True)
    undone_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"change {self.pk}: {self.summary}"


class WorkerHost(models.Model):
    """A worker host that serves a pool. Hosts are known only by their heartbeats."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=120)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="worker_hosts")
    concurrency = models.PositiveSmallIntegerField(default=1)
    started_at = models.DateTimeField()
    last_seen = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["name", "pool"], name="workerhost_once")]

    def __str__(self) -> str:
        return self.name

    def is_alive(self, *, now: datetime) -> bool:
        """Whether the host has sent a heartbeat within the last `HOST_SILENT_AFTER`."""
        return now - self.last_seen < HOST_SILENT_AFTER


class HostMeasurement(models.Model):
    """Return the delivered class if it is lower than the contract's class; otherwise return an empty text."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="measurements")
    program_digest = models.CharField(max_length=64)
    samples = models.PositiveIntegerField()
    p50_ns = models.BigIntegerField()
    p95_ns = models.BigIntegerField()
    p99_ns = models.BigIntegerField()
    hardware = models.CharField(max_length=200)
    measured_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["pool", "program_digest", "-measured_at"], name="measurement_latest")]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(samples__gt=0, p50_ns__gt=0, p95_ns__gte=models.F("p50_ns")),
                name="measurement_sane",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pool_id} {self.program_digest[:12]} {self.measured_at:%Y-%m-%d}"

    @property
    def p50_seconds(self) -> Fraction:
        """The median duration in seconds."""
        return Fraction(self.p50_ns, 1_000_000_000)

    @property
    def p99_seconds(self) -> Fraction:
        """The 99th percentile of the duration in seconds."""
        return Fraction(self.p99_ns, 1_000_000_000)

    @property
    def p95_seconds(self) -> Fraction:
        """The 95th percentile of the duration in seconds. A window on a host pool reserves this time for each
        execution.
        """
        return Fraction(self.p95_ns, 1_000_000_000)
