"""The API reference at /api/v1/docs."""

from apps.config.reference.page import Reference

__all__ = ["Reference"]
