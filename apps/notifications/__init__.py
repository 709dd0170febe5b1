"""Notifies customers by webhooks, budget alerts and notices."""
