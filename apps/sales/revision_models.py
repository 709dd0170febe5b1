"""What was seen when the rest of a contract was planned again without anybody asking."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.planner.models import Plan


class ContractReview(models.Model):
    """When a contract by a plan was last looked at. Once there is something to propose, `proposed` is the plan whose page shows
    the difference, `reason` says what it is good for, and the contract is not looked at again. It applies nothing."""

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
