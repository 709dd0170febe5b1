"""Errors as RFC 9457 problem details."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.http import HttpResponse, JsonResponse
from pydantic import BaseModel, ConfigDict

CONTENT_TYPE = "application/problem+json"
PROBLEM_STATUSES = {
    "400": "The request cannot be read",
    "401": "Not signed in",
    "403": "The role or the token's scope does not allow this",
    "404": "Not found, or you may not see it",
    "409": "The current state does not allow this",
    "422": "The request does not match its schema or breaks a rule",
    "429": "Too many requests: wait for the number of seconds in the Retry-After header",
    "503": "Part of the platform is not responding. Nothing was accepted. Try again after the time in the Retry-After header",
    "default": "Any other refusal",
}

# What an answer says that no operation made: an unknown address, a wrong method, a body that was cut off. (code, title, detail)
STANDARD = {
    400: (
        "request-unreadable",
        "The request cannot be read",
        "Check the headers and the body. The API guide shows an example.",
    ),
    403: ("not-allowed", "Not allowed", "Your role, your token's scope or the request's origin does not allow this."),
    404: ("not-found", "Not found", "The requested object does not exist, or you may not see it."),
    405: (
        "method-not-allowed",
        "Method not allowed",
        "This address does not allow this method. The Allow header lists the allowed methods.",
    ),
    413: ("request-too-large", "The request is too large", "Send a smaller body. Upload models in pieces."),
    429: (
        "too-many-requests",
        "Too many requests",
        "Wait for the number of seconds in the Retry-After header, then try again.",
    ),
    500: (
        "internal-error",
        "Something went wrong on our side",
        "This is a fault in Takt, not in your request. Report the request ID from the X-Request-ID header.",
    ),
    503: (
        "unavailable",
        "Not available now",
        "Part of Takt is unavailable. Nothing was changed. Try again in a minute.",
    ),
}


class ProblemBody(BaseModel):
    """The body of an error response.

    `type` is the URL of a page about the error. `code` is the stable identifier that programs should test.
    """

    model_config = ConfigDict(title="Problem")

    type: str
    code: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]] = []


class Problem(Exception):
    """An error with an HTTP status, a title, and a sentence that says what to do.

    `kind` is a stable code (docs/reference/problems.md). `errors` lists individual faults. `retry_after` is in seconds.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        *,
        kind: str,
        errors: Sequence[dict[str, Any]] = (),
        retry_after: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.title, self.detail, self.kind, self.errors = status, title, detail, kind, list(errors)
        self.retry_after = retry_after

    @property
    def headers(self) -> dict[str, str]:
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}


def problem_standard(status: int) -> Problem:
    """Return the generic problem for an HTTP status."""
    unknown = ("request-refused", "Refused", "The request was refused. The status code gives the reason.")
    code, title, detail = STANDARD.get(status, STANDARD[500] if status >= 500 else unknown)
    return Problem(status, title, detail, kind=code)


def problem_document(problem: Problem) -> dict[str, Any]:
    """Return the body of the error response."""
    body = ProblemBody(
        type=f"{settings.SITE_URL}/problems/{problem.kind}",
        code=problem.kind,
        title=problem.title,
        status=problem.status,
        detail=problem.detail,
        errors=problem.errors,
    )
    return body.model_dump()


def problem_response(problem: Problem) -> HttpResponse:
    """Return the error as an `application/problem+json` response."""
    body = problem_document(problem)
    return JsonResponse(body, status=problem.status, content_type=CONTENT_TYPE, headers=problem.headers)
