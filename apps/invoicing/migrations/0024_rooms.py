"""Stripe, webhooks and budgets belong to rooms of their own. Only the state changes: the tables stay as they are."""

from django.db import migrations

GONE = (
    "BudgetAlert",
    "Budget",
    "WebhookAttempt",
    "WebhookDelivery",
    "WebhookEndpoint",
    "StripePush",
    "StripeCall",
    "StripeCustomer",
    "StripeEvent",
    "StripeCheck",
)


class Migration(migrations.Migration):
    dependencies = [("billing", "0023_drafts_taken_apart")]

    operations = [
        migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel(name) for name in GONE]),
    ]
