"""Models for webhooks, budgets and notices."""

from apps.notifications.models.budgets import AlertKind, Budget, BudgetAlert
from apps.notifications.models.notices import Notice
from apps.notifications.models.webhooks import WebhookAttempt, WebhookDelivery, WebhookEndpoint

__all__ = ["AlertKind", "Budget", "BudgetAlert", "Notice", "WebhookAttempt", "WebhookDelivery", "WebhookEndpoint"]
