"""Records of the sample data created so far."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from apps.accounts.models import Organisation


class SampleStep(models.Model):
    """A completed step of an organisation's sample data, recorded in the same transaction as the step's results."""

    id = models.BigAutoField(primary_key=True)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="sample_steps")
    name = models.CharField(max_length=80)
    at = models.DateTimeField()

    organisation_path: ClassVar[str] = "organisation"

    class Meta:
        constraints = [models.UniqueConstraint(fields=["organisation", "name"], name="samplestep_once")]

    def __str__(self) -> str:
        return f"{self.name} at {self.at:%Y-%m-%d %H:%M}"
