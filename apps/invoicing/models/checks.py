"""Checks of a customer's ledger and their results."""

from __future__ import annotations

import uuid

from django.db import models

from apps.accounts.models import Organisation, User


class LedgerCheck(models.Model):
    """A check of the whole ledger as of `read_at`, or a request for a check.

    `broken_at` is the number of the first invalid transaction. An organisation has at most one unfinished check.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="ledger_checks")
    asked_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    asked_at = models.DateTimeField()
    read_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    sequence = models.BigIntegerField(default=0)
    head = models.CharField(max_length=64, blank=True, default="")
    broken_at = models.BigIntegerField(null=True, blank=True)
    reason = models.TextField(blank=True, default="")
    amounts = models.JSONField(default=list)
    differences = models.JSONField(default=list)

    class Meta:
        ordering = ["-asked_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["organisation"], condition=models.Q(finished_at=None), name="ledgercheck_one_at_a_time"
            ),
            models.CheckConstraint(
                condition=models.Q(read_at=None, finished_at=None)
                | models.Q(read_at__isnull=False, finished_at__gte=models.F("read_at")),
                name="ledgercheck_read_before_finished",
            ),
        ]
        indexes = [models.Index(fields=["organisation", "-read_at"], name="ledgercheck_newest")]

    def __str__(self) -> str:
        return f"{self.asked_at:%Y-%m-%d %H:%M}: {self.sequence} transactions"

    @property
    def intact(self) -> bool:
        return self.broken_at is None
