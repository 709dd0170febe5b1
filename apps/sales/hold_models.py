"""Holds: capacity reserved for a plan for a few minutes."""

from __future__ import annotations

import uuid
from datetime import datetime
from fractions import Fraction
from typing import ClassVar

from django.conf import settings
from django.db import models

from apps.accounts.models import Organisation
from apps.planner.models import Plan
from apps.timetable.models import Reservation


class HoldState(models.TextChoices):
    """The stored state of a hold. A hold with the state `held` may have expired: see `is_live`."""

    HELD = "held", "Held"
    ACCEPTED = "accepted", "Accepted"
    RELEASED = "released", "Released"
    EXPIRED = "expired", "Expired"


class PlanHold(models.Model):
    """Device time held for a plan until `held_until`, and the quote to buy this time.

    `contract_id` is the id of the future contract.
    """

    State = HoldState

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="plan_holds")
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="holds")
    quote = models.OneToOneField("sales.Quote", on_delete=models.PROTECT, related_name="plan_hold")
    reservation = models.OneToOneField(Reservation, on_delete=models.PROTECT, related_name="+")
    contract_id = models.UUIDField(unique=True)
    held_until = models.DateTimeField()
    state = models.CharField(max_length=10, choices=HoldState, default=HoldState.HELD)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["plan"], condition=models.Q(state="held"), name="planhold_one_for_a_plan"),
            models.CheckConstraint(
                condition=models.Q(held_until__gt=models.F("created_at")), name="planhold_half_open"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["organisation"], name="planhold_open", condition=models.Q(state="held")),
            models.Index(fields=["held_until"], name="planhold_to_end", condition=models.Q(state="held")),
        ]

    def __str__(self) -> str:
        return f"hold of plan {self.plan_id}"

    def is_live(self, *, now: datetime) -> bool:
        """Return True if the hold is in force at `now`."""
        return self.state == HoldState.HELD and now < self.held_until and self.reservation.state == "active"

    @property
    def seconds(self) -> Fraction:
        return Fraction(self.quote.document["device_seconds"])
