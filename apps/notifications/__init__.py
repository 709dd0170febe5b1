"""Notifications to customers: webhooks, budgets with their alerts, and notices."""
