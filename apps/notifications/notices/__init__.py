"""Notices to members about completed work."""
