"""Outbound webhooks and budgets."""

from apps.notifications.models.budgets import AlertKind, Budget, BudgetAlert
from apps.notifications.models.webhooks import WebhookAttempt, WebhookDelivery, WebhookEndpoint

__all__ = ["AlertKind", "Budget", "BudgetAlert", "WebhookAttempt", "WebhookDelivery", "WebhookEndpoint"]
