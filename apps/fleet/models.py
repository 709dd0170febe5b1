"""What work can run on: processor versions, sites, pools of identical devices, and the hosts that serve them."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from fractions import Fraction

from django.db import models

HOST_SILENT_AFTER = timedelta(seconds=20)


class PoolKind(models.TextChoices):
    """How a pool's device time is known."""

    SIMULATED = "simulated", "Deterministic processor, executed by the simulator"
    HOST = "host", "This machine's own CPU: measured, not proven"


class ProcessorVersion(models.Model):
    """One version of a processor as the compiler knows it; the digest is that of the target's canonical description."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=40)
    digest = models.CharField(max_length=64)
    clock_hz = models.BigIntegerField()
    memory_bytes = models.BigIntegerField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "digest"], name="processorversion_once")]

    def __str__(self) -> str:
        return f"{self.name} {self.digest[:12]}"


class Site(models.Model):
    """A place with a time zone, in which the administrator reads hours."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=80)
    time_zone = models.CharField(max_length=60, default="UTC")

    def __str__(self) -> str:
        return self.name


class Pool(models.Model):
    """Identical devices at one site and of one price class; work is sold on a pool, windows on its devices."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=10, choices=PoolKind)
    processor = models.ForeignKey(ProcessorVersion, on_delete=models.PROTECT, null=True, related_name="pools")
    processor_class = models.CharField(max_length=20)
    site = models.ForeignKey(Site, on_delete=models.PROTECT, related_name="pools")
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
        ]

    def __str__(self) -> str:
        return self.slug

    @property
    def queue(self) -> str:
        """The Celery queue on which this pool's leases are offered."""
        return f"pool-{self.slug}"

    @property
    def target(self) -> str | None:
        """The compiler's target whose binaries run here; None on a host pool, which runs the model itself."""
        return self.processor.name if self.processor else None

    @property
    def is_host(self) -> bool:
        """True when latencies here are measured, not proven."""
        return self.kind == PoolKind.HOST


class Device(models.Model):
    """One processor. Its time is sold in windows that never overlap.

    It is owned over [`owned_from`, `owned_until`): since its pool began where no instant is stated, and still where none
    ends it. Out of sale it is owned all the same, and costs what it costs.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="devices")
    name = models.CharField(max_length=40)
    is_active = models.BooleanField(default=True)
    owned_from = models.DateTimeField(null=True, blank=True)
    owned_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["pool", "name"], name="device_name_once"),
            models.CheckConstraint(
                condition=models.Q(owned_until__isnull=True) | models.Q(is_active=False), name="device_retired_is_off"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class WorkerHost(models.Model):
    """A worker process that serves a pool from some machine; it is known by its heartbeat alone."""

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
        """Seen within the last `HOST_SILENT_AFTER`."""
        return now - self.last_seen < HOST_SILENT_AFTER


class HostMeasurement(models.Model):
    """How long one execution of a program's model took on a host pool: measured on a date, proven for no other day.

    Times are whole nanoseconds of wall clock; percentiles are over `samples` executions on `hardware`.
    """

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
        """The median in seconds."""
        return Fraction(self.p50_ns, 1_000_000_000)

    @property
    def p99_seconds(self) -> Fraction:
        """The 99th percentile in seconds."""
        return Fraction(self.p99_ns, 1_000_000_000)

    @property
    def p95_seconds(self) -> Fraction:
        """The 95th percentile in seconds: what a window on a host pool reserves for one execution."""
        return Fraction(self.p95_ns, 1_000_000_000)
