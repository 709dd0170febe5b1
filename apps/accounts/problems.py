"""Refusals as RFC 9457 problem details. A service may raise `Problem`; the API and the pages both show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpResponse, JsonResponse
from pydantic import BaseModel, ConfigDict

CONTENT_TYPE = "application/problem+json"
PROBLEM_STATUSES = {
    "400": "The request cannot be read",
    "401": "Not signed in",
    "403": "The role or the token's scope does not allow this",
    "404": "No such thing, or not yours to see",
    "409": "The present state does not allow this",
    "422": "The request does not fit its schema or its rules",
    "default": "Any other refusal",
}


class ProblemBody(BaseModel):
    """The body of every refusal."""

    model_config = ConfigDict(title="Problem")

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] = []


class Problem(Exception):
    """A refusal with its status, a short title, and a sentence that says what to do.

    `kind` is a stable word for programs ("capacity-gone"); `errors` lists every fault when there are several.
    """

    def __init__(
        self, status: int, title: str, detail: str, *, kind: str = "about:blank", errors: Sequence[dict[str, Any]] = ()
    ) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail, self.kind, self.errors = status, title, detail, kind, list(errors)


def problem_response(problem: Problem) -> HttpResponse:
    """The refusal as `application/problem+json`."""
    body = ProblemBody(
        type=problem.kind, title=problem.title, status=problem.status, detail=problem.detail, errors=problem.errors
    )
    return JsonResponse(body.model_dump(), status=problem.status, content_type=CONTENT_TYPE)
