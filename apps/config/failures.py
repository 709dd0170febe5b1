"""Last-resort responses: 503 for an outage, 500 for our own defect, 400 for an unreadable request.

The pages need no database, session or context processors, because any of these may have failed.
"""

from __future__ import annotations

import sys

import structlog
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.html import escape

from apps.accounts.outages import Unavailable, unavailable_of
from apps.accounts.problems import Problem, problem_response, problem_standard

API_PREFIX = "/api/"
_TITLE = "Something went wrong on our side"
_DETAIL = (
    "This is a fault in Takt, not in what you entered. Try again in a minute. Before you repeat a purchase or a job, "
    "check whether it went through. If the fault persists, report the request ID, so that we can find the fault in our log."
)

log = structlog.get_logger("request")


def request_id_of(request: HttpRequest) -> str:
    """Return the id of the request in logs and responses; empty if the middleware has not set an id."""
    return str(getattr(request, "request_id", ""))


def failure(request: HttpRequest) -> HttpResponse:
    """Respond to an uncaught exception (Django's `handler500`)."""
    outage = unavailable_of(sys.exc_info()[1])
    if outage is not None:
        return outage_response(request, outage)
    if request.path.startswith(API_PREFIX):
        return problem_response(defect_problem(request))
    return _page(request, 500, _TITLE, _DETAIL)


def unreadable(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Respond to a request that Django refused to read (Django's `handler400`)."""
    title = "We can't read this request"
    detail = (
        "The address, the form or a file in it is damaged or too large. Go back, check what you sent, and try again."
    )
    return _page(request, 400, title, detail)


def form_expired(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Respond to a form without a valid CSRF token (Django's CSRF_FAILURE_VIEW)."""
    log.warning("csrf", path=request.path, reason=reason)
    detail = (
        "The page was open for too long, you have signed in again since, or your browser blocks cookies. Nothing was "
        "changed. Open the page again and send the form once more."
    )
    return _page(request, 403, "This form has expired", detail)


def outage_response(request: HttpRequest, outage: Unavailable) -> HttpResponse:
    """Respond to an outage: with problem details for the API, otherwise with a page."""
    if request.path.startswith(API_PREFIX):
        return problem_response(outage)
    response = _page(request, 503, outage.title, outage.detail)
    for name, value in outage.headers.items():
        response[name] = value
    return response


def defect_problem(request: HttpRequest) -> Problem:
    """Return the error for our own defect. The message states the request id."""
    problem = problem_standard(500)
    problem.detail = f"This is a fault in Takt, not in your request. Report the request ID {request_id_of(request)}."
    return problem


def long_address_page() -> str:
    """Return the page for a URL that is too long to read."""
    return _rendered(
        {
            "status": 414,
            "title": "This address is too long",
            "detail": "A form or a link put more text into the address than we accept. Go back and shorten what you entered.",
        }
    )


def _page(request: HttpRequest, status: int, title: str, detail: str) -> HttpResponse:
    may_repeat = request.method == "GET" and status >= 500
    values = {
        "status": status,
        "title": title,
        "detail": detail,
        "back": request.get_full_path() if may_repeat else request.META.get("HTTP_REFERER", ""),
        "back_label": "Try again" if may_repeat else "Back",
        "request_id": request_id_of(request),
    }
    return HttpResponse(_rendered(values), status=status)


def _rendered(values: dict[str, object]) -> str:
    try:
        return render_to_string("errors/alone.html", values)
    except Exception:  # whatever hides the page, the person still learns what to do
        log.exception("error page")
        return _bare(values)


def _bare(values: dict[str, object]) -> str:
    title, detail, request_id = (escape(values.get(name, "")) for name in ("title", "detail", "request_id"))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} - Takt</title></head><body><main>'
        f'<h1>{title}</h1><p>{detail}</p><p>Request ID {request_id}</p><p><a href="/">Overview</a></p></main></body></html>'
    )
