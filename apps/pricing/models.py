"""Published price books. A book never changes; the next one follows it without a gap and without an overlap."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import ClassVar

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models


class PriceBook(models.Model):
    """A version of the prices, in force over [lower, upper) of `effective`; upper is open until the next is published.

    The database refuses every change but one: an open end may be closed, once, at an instant still to come.
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
        """First instant in force."""
        lower: datetime = self.effective.lower
        return lower

    @property
    def effective_until(self) -> datetime | None:
        """First instant no longer in force; None while no later book is published."""
        upper: datetime | None = self.effective.upper
        return upper
