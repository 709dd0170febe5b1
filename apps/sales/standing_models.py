"""Standing requests, and the nodes of the quota tree."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from apps.accounts.models import ApiToken, Organisation


class StandingState(models.TextChoices):
    """The state of a standing request. All states except `waiting` are final.

    `refused`: there was room, but the buyer lacked the money or the right to buy.
    """

    WAITING = "waiting", "Waiting"
    SERVED = "served", "Served"
    EXPIRED = "expired", "Expired"
    WITHDRAWN = "withdrawn", "Withdrawn"
    REFUSED = "refused", "Refused"


class StandingRequest(models.Model):
    """A request to buy the work of a quote on one of `pools`, for at most `most`.

    `waits_until` is the first instant at which it is too late to serve the request.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="standing_requests")
    number = models.PositiveIntegerField()
    quote = models.ForeignKey("sales.Quote", on_delete=models.PROTECT, related_name="standing_requests")
    pools = ArrayField(models.CharField(max_length=40))
    klass = models.CharField(max_length=20)
    form = models.CharField(max_length=10)  # a FormName
    begins_at = models.DateTimeField()
    until = models.DateTimeField()
    waits_until = models.DateTimeField()
    most = models.DecimalField(max_digits=72, decimal_places=40)
    currency = models.CharField(max_length=3)
    least_us = models.BigIntegerField(default=0)  # device time that it takes at least, whatever the power setting
    filed_at = models.DateTimeField()
    filed_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, null=True, related_name="+")
    state = models.CharField(max_length=10, choices=StandingState, default=StandingState.WAITING)
    contract = models.OneToOneField(
        "sales.Contract", on_delete=models.PROTECT, null=True, related_name="standing_request"
    )
    reason_kind = models.CharField(max_length=40, blank=True)
    reason = models.CharField(max_length=400, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    organisation_path: ClassVar[str] = "organisation"

    class Meta:
        ordering = ["-filed_at", "-id"]
        indexes = [
            models.Index(fields=["organisation", "-filed_at"], name="standing_by_time"),
            models.Index(fields=["filed_at"], name="standing_waiting", condition=models.Q(state="waiting")),
        ]
        constraints = [
            models.UniqueConstraint(fields=["organisation", "number"], name="standing_number_once"),
            models.CheckConstraint(
                condition=models.Q(
                    most__gt=0, until__gt=models.F("filed_at"), waits_until__lte=models.F("until"), least_us__gte=0
                ),
                name="standing_is_something",
            ),
            models.CheckConstraint(
                condition=models.Q(state="waiting", ended_at__isnull=True)
                | models.Q(state__in=["served", "expired", "withdrawn", "refused"], ended_at__isnull=False),
                name="standing_ended_with_its_state",
            ),
            models.CheckConstraint(
                condition=models.Q(state="served", contract__isnull=False)
                | (~models.Q(state="served") & models.Q(contract__isnull=True)),
                name="standing_served_by_contract",
            ),
        ]

    def __str__(self) -> str:
        return f"standing request {self.id}"

    @property
    def pk_text(self) -> str:
        return str(self.pk)

    @property
    def is_waiting(self) -> bool:
        return self.state == StandingState.WAITING


class QuotaNode(models.Model):
    """The device time that an organisation, a project, or an API token in a project may reserve in advance.

    All amounts are microseconds of future reserved time. `lending_us`: the unused time that siblings may borrow; null
    for all unused time. `borrowing_us`: the time that the node may borrow; null for no limit. The organisation's own
    node has no project and no token.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="quota_nodes")
    project = models.ForeignKey("registry.Project", on_delete=models.PROTECT, null=True, related_name="+")
    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, null=True, related_name="+")
    nominal_us = models.BigIntegerField()
    lending_us = models.BigIntegerField(null=True)
    borrowing_us = models.BigIntegerField(null=True)
    set_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organisation", "project", "token"], nulls_distinct=False, name="quotanode_once"
            ),
            models.CheckConstraint(
                condition=models.Q(nominal_us__gte=0)
                & (models.Q(lending_us__isnull=True) | models.Q(lending_us__gte=0))
                & (models.Q(borrowing_us__isnull=True) | models.Q(borrowing_us__gte=0)),
                name="quotanode_not_negative",
            ),
            models.CheckConstraint(
                condition=models.Q(token__isnull=True) | models.Q(project__isnull=False),
                name="quotanode_token_in_project",
            ),
        ]

    def __str__(self) -> str:
        return f"quota of {self.token_id or self.project_id or self.organisation_id}"
