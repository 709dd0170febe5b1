"""Automatic reviews of contracts."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.planner.models import Plan


class ContractReview(models.Model):
    """The last review of a contract that was bought from a plan.

    If the review found a better plan, `proposed` is the plan and `reason` explains why it is better.
    """

    contract = models.OneToOneField("sales.Contract", on_delete=models.PROTECT, primary_key=True, related_name="review")
    looked_at = models.DateTimeField()
    proposed = models.ForeignKey(Plan, on_delete=models.PROTECT, null=True, related_name="+")
    reason = models.CharField(max_length=300, blank=True)

    organisation_path: ClassVar[str] = "contract__organisation"

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["looked_at"], name="contractreview_open", condition=models.Q(proposed__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"review of contract {self.contract_id}"
