"""Price books and drafts. A published book never changes."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import ClassVar

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models

from apps.accounts.models import User


class PriceBook(models.Model):
    """A version of the prices, in force during [lower, upper) of `effective`.

    The database rejects every change, except that an open end can be set once, to a future instant.
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
        lower: datetime = self.effective.lower
        return lower

    @property
    def effective_until(self) -> datetime | None:
        """The instant at which the next book takes effect; None if no later book is published."""
        upper: datetime | None = self.effective.upper
        return upper


class DraftState(models.TextChoices):
    """The states of a draft. A draft is open until it is published or discarded."""

    OPEN = "open", "Open"
    PUBLISHED = "published", "Published"
    DISCARDED = "discarded", "Discarded"


class PriceBookDraft(models.Model):
    """A price book in preparation, which administrators edit in forms.

    `base` is the version of the last published book when the draft was started. `revision` counts the saves, so that an
    outdated page can't overwrite a newer save.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    base = models.PositiveIntegerField()
    document = models.JSONField()
    revision = models.PositiveIntegerField(default=1)
    state = models.CharField(max_length=10, choices=DraftState, default=DraftState.OPEN)
    book = models.OneToOneField(PriceBook, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    created_at = models.DateTimeField()
    created_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")
    saved_at = models.DateTimeField()
    saved_by = models.ForeignKey(User, on_delete=models.PROTECT, null=True, related_name="+")

    organisation_path: ClassVar[str | None] = None

    class Meta:
        ordering = ["-saved_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state=DraftState.PUBLISHED, book__isnull=False)
                | (~models.Q(state=DraftState.PUBLISHED) & models.Q(book__isnull=True)),
                name="pricebookdraft_published_has_book",
            ),
        ]

    def __str__(self) -> str:
        return f"draft after price book {self.base}, revision {self.revision}"

    @property
    def is_open(self) -> bool:
        return self.state == DraftState.OPEN
