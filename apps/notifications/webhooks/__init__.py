"""Outbound webhooks."""
