"""Notifications to customers: webhooks, budget alerts and notices."""
