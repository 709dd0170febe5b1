"""Stored invoice drafts."""

from __future__ import annotations

from django.db import models

from apps.accounts.models import Organisation


class KeptDraft(models.Model):
    """The newest draft invoice of an organisation in one currency, or a request for a draft.

    The draft covers all usage that was uninvoiced at `read_at`. Issuing an invoice deletes the draft.
    """

    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="+")
    currency = models.CharField(max_length=3)
    asked_at = models.DateTimeField(null=True, blank=True)
    read_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    sequence = models.BigIntegerField(default=0)
    document = models.JSONField(null=True, blank=True)  # pages read excerpts of it

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["organisation", "currency"], name="keptdraft_once"),
            models.CheckConstraint(
                condition=models.Q(read_at=None, finished_at=None)
                | models.Q(read_at__isnull=False, finished_at__gte=models.F("read_at")),
                name="keptdraft_whole",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.organisation_id} {self.currency}"
