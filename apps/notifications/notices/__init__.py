"""Notifications to members about work that has ended."""
