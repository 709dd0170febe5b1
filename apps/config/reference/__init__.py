"""The page /api/v1/docs: every operation of the OpenAPI document, with a curl example and a Python example."""

from apps.config.reference.page import Reference

__all__ = ["Reference"]
