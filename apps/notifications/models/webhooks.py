"""Webhook endpoints, messages and delivery attempts."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.db import models

from apps.accounts.models import Organisation
from apps.ledger.models import OutboxRow


class WebhookEndpoint(models.Model):
    """A webhook endpoint: an address, and the secret that signs messages.

    `failing_since` is the time of the first failure after the last delivery. `failures` counts consecutive attempts
    without a usable response. After such an attempt, sending pauses until `paused_until`. It then resumes with one
    message at a time until one is delivered.

    `prompt_at` is the time of the last 2xx response; None if that response was not prompt.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    organisation = models.ForeignKey(Organisation, on_delete=models.PROTECT, related_name="webhook_endpoints")
    url = models.CharField(max_length=500)
    secret = models.CharField(max_length=80)
    topics = ArrayField(models.CharField(max_length=20))
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    failing_since = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0)
    paused_until = models.DateTimeField(null=True, blank=True)
    last_attempt_at = models.DateTimeField(null=True, blank=True)
    prompt_at = models.DateTimeField(null=True, blank=True)
    disabled_at = models.DateTimeField(null=True, blank=True)
    deleted_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        db_table = "billing_webhookendpoint"
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return self.url


class WebhookDelivery(models.Model):
    """A message to an endpoint. Every attempt sends the same bytes and id.

    Until `claimed_until`, only the worker that claimed the message may send it.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.PROTECT, related_name="deliveries")
    row = models.ForeignKey(OutboxRow, on_delete=models.PROTECT, null=True, related_name="+")
    topic = models.CharField(max_length=60)
    body = models.TextField()
    attempts = models.PositiveSmallIntegerField(default=0)
    created_at = models.DateTimeField()
    next_at = models.DateTimeField()
    claimed_until = models.DateTimeField(null=True, blank=True)
    delivered_at = models.DateTimeField(null=True, blank=True)
    dead_at = models.DateTimeField(null=True, blank=True)

    organisation_path: ClassVar[str] = "endpoint__organisation"

    class Meta:
        db_table = "billing_webhookdelivery"
        ordering = ["-created_at", "id"]
        constraints = [models.UniqueConstraint(fields=["endpoint", "row"], name="webhookdelivery_once")]
        indexes = [
            models.Index(
                fields=["endpoint", "next_at"],
                name="webhookdelivery_due",
                condition=models.Q(delivered_at__isnull=True, dead_at__isnull=True),
            )
        ]

    def __str__(self) -> str:
        return f"{self.topic} to {self.endpoint_id}"


class WebhookAttempt(models.Model):
    """An attempt to deliver a message, with the status and the start of the response, or the error."""

    id = models.BigAutoField(primary_key=True)
    delivery = models.ForeignKey(WebhookDelivery, on_delete=models.PROTECT, related_name="tries")
    at = models.DateTimeField()
    status = models.PositiveSmallIntegerField(null=True)
    answer = models.CharField(max_length=500, blank=True)
    error = models.CharField(max_length=300, blank=True)

    organisation_path: ClassVar[str] = "delivery__endpoint__organisation"

    class Meta:
        db_table = "billing_webhookattempt"
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.status or self.error}"
