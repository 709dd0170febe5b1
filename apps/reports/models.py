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
