"""The page /api/v1/docs: every operation of the OpenAPI document, with an example in curl and one in Python."""

from apps.config.reference.page import Reference

__all__ = ["Reference"]
