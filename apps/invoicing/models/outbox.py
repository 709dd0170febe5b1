"""The outbox's pending work."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.ledger.models import OutboxRow


class OutboxWork(models.Model):
    """The work of one handler for one outbox row. The work stays open until it is done or given up."""

    id = models.BigAutoField(primary_key=True)
    row = models.ForeignKey(OutboxRow, on_delete=models.PROTECT, related_name="works")
    handler = models.CharField(max_length=60)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField()
    error = models.CharField(max_length=400, blank=True)
    created_at = models.DateTimeField()
    done_at = models.DateTimeField(null=True, blank=True)
    dead_at = models.DateTimeField(null=True, blank=True)

    organisation_path: ClassVar[str] = "row__organisation"

    class Meta:
        ordering = ["row_id", "id"]
        constraints = [
            models.UniqueConstraint(fields=["row", "handler"], name="outboxwork_once"),
            models.CheckConstraint(
                condition=models.Q(done_at__isnull=True) | models.Q(dead_at__isnull=True), name="outboxwork_one_end"
            ),
        ]
        indexes = [
            models.Index(
                fields=["handler", "row"],
                name="outboxwork_open",
                condition=models.Q(done_at__isnull=True, dead_at__isnull=True),
            ),
            models.Index(fields=["dead_at"], name="outboxwork_dead", condition=models.Q(dead_at__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.handler} of {self.row_id}, {self.attempts} attempts"
