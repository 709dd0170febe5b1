"""Signed messages to customers' own addresses."""
