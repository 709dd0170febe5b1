"""How the API reads a request. PostgreSQL cannot store the character NUL, so none gets in."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.datastructures import MultiValueDict
from ninja.parser import Parser

from apps.accounts.problems import Problem

NUL = "\0"


class WithoutNul(Parser):
    """ninja's parser; a text with the character NUL in it is a 422, wherever it stands."""

    def parse_body(self, request: HttpRequest) -> Any:
        body = super().parse_body(request)
        # Only a body that can hold one is searched: written as an escape, or as the byte itself.
        if (b"\\u0000" in request.body or b"\0" in request.body) and _has_nul(body):
            raise _refusal()
        return body

    def parse_querydict(self, data: MultiValueDict[str, Any], list_fields: list[str], request: HttpRequest) -> Any:
        if any(isinstance(value, str) and NUL in value for _, values in data.lists() for value in values):
            raise _refusal()
        return super().parse_querydict(data, list_fields, request)


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return NUL in value
    if isinstance(value, dict):
        return any(_has_nul(key) or _has_nul(one) for key, one in value.items())
    return isinstance(value, list) and any(_has_nul(one) for one in value)


def _refusal() -> Problem:
    return Problem(422, "Unusable character", "A text holds the character NUL (U+0000): leave it out.")
