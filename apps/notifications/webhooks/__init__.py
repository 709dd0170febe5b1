"""Outbound webhooks: signed messages to customers' addresses."""
