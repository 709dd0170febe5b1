"""Saved filters of lists."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models

from apps.accounts.models import Organisation


class SavedFilter(models.Model):
    """A named filter of a list, which belongs to one person in one organisation.

    `page` is the URL name of the list, such as "dispatch:job_list". `query` is the filter as a query string.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.CASCADE, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    page = models.CharField(max_length=60)
    name = models.CharField(max_length=80)
    query = models.CharField(max_length=500)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "organisation", "page", "name"], name="saved_filter_once"),
        ]

    def __str__(self) -> str:
        return self.name
