"""Notifications to customers: webhooks, budgets with alerts, and notices."""
