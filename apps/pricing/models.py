"""Published price books. A book never changes; each book follows the previous one without a gap or an overlap."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import ClassVar

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models


class PriceBook(models.Model):
    """One version of the prices, in force during [lower, upper) of `effective`; upper is open until the next book is
    published.

    The database rejects every change but one: an open end can be set once, to a future instant.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    version = models.PositiveIntegerField(unique=True)
    effective = DateTimeRangeField()
    document = models.JSONField()
    digest = models.CharField(max_length=64, unique=True)
    currency = models.CharField(max_length=3)
    published_at = models.DateTimeField()

    organisation_path: ClassVar[str | None] = None  # prices are public

    class Meta:
        ordering = ["version"]
        constraints = [
            ExclusionConstraint(name="pricebook_one_in_force", expressions=[("effective", RangeOperators.OVERLAPS)]),
            models.CheckConstraint(
                condition=models.Q(
                    effective__isempty=False,
                    effective__lower_inc=True,
                    effective__upper_inc=False,
                    effective__lower_inf=False,
                ),
                name="pricebook_half_open",
            ),
        ]

    def __str__(self) -> str:
        return f"price book {self.version}"

    @property
    def effective_from(self) -> datetime:
        """The first instant in force."""
        lower: datetime = self.effective.lower
        return lower

    @property
    def effective_until(self) -> datetime | None:
        """The first instant no longer in force; None if no later book is published."""
        upper: datetime | None = self.effective.upper
        return upper
