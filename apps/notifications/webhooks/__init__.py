"""Outbound webhooks: signed messages to addresses of customers."""
