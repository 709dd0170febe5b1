"""Sold device time. The database rejects overlapping windows on a device."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import ClassVar

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models

from apps.accounts.models import Organisation
from apps.fleet.models import Device, Pool


class ReservationState(models.TextChoices):
    """The states of a reservation."""

    ACTIVE = "active", "Active"
    RELEASED = "released", "Released"


class WindowState(models.TextChoices):
    """The states of a window. An active window occupies the device, even in the past."""

    ACTIVE = "active", "Active"
    RELEASED = "released", "Released"


class Reservation(models.Model):
    """Device time in one pool, reserved by one contract.

    If `held_until` is set, the time is only held for a possible contract, and becomes free at that instant.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    contract_id = models.UUIDField(db_index=True)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="reservations")
    klass = models.CharField(max_length=20)
    state = models.CharField(max_length=10, choices=ReservationState, default=ReservationState.ACTIVE)
    created_at = models.DateTimeField()
    held_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(
                fields=["pool", "held_until"],
                name="reservation_held",
                condition=models.Q(held_until__isnull=False, state=ReservationState.ACTIVE),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pool_id} for {self.contract_id}"


class Window(models.Model):
    """A half-open period of one device, in whole microseconds."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    reservation = models.ForeignKey(Reservation, on_delete=models.PROTECT, related_name="windows")
    device = models.ForeignKey(Device, on_delete=models.PROTECT, related_name="windows")
    period = DateTimeRangeField()
    state = models.CharField(max_length=10, choices=WindowState, default=WindowState.ACTIVE)

    organisation_path: ClassVar[str] = "reservation__organisation"

    class Meta:
        indexes = [
            models.Index(
                fields=["device", "period"], condition=models.Q(state=WindowState.ACTIVE), name="window_by_time"
            ),
        ]
        constraints = [
            ExclusionConstraint(
                name="window_never_sold_twice",
                expressions=[("device", RangeOperators.EQUAL), ("period", RangeOperators.OVERLAPS)],
                condition=models.Q(state=WindowState.ACTIVE),
            ),
            models.CheckConstraint(
                condition=models.Q(
                    period__isempty=False,
                    period__lower_inc=True,
                    period__upper_inc=False,
                    period__lower_inf=False,
                    period__upper_inf=False,
                ),
                name="window_half_open",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.device_id} [{self.start}, {self.end})"

    @property
    def start(self) -> datetime:
        lower: datetime = self.period.lower
        return lower

    @property
    def end(self) -> datetime:
        upper: datetime = self.period.upper
        return upper


class Refusal(models.Model):
    """A refused request for device time, stored for administrators."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="+")
    pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="refusals")
    klass = models.CharField(max_length=20)
    duration_us = models.BigIntegerField()
    reason = models.CharField(max_length=400)
    at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M} {self.pool_id}: {self.reason}"

    @property
    def duration(self) -> timedelta:
        return timedelta(microseconds=self.duration_us)
