"""What is answered when an exception reaches the top: an outage is 503 with Retry-After, a defect of ours 500."""

from __future__ import annotations

import sys

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.views.defaults import server_error

from apps.accounts.outages import Unavailable, unavailable_of
from apps.accounts.problems import problem_response, problem_standard

API_PREFIX = "/api/"


def failure(request: HttpRequest) -> HttpResponse:
    """Django's `handler500`, called while the exception is handled; its answer touches no database, cache or storage."""
    outage = unavailable_of(sys.exc_info()[1])
    if outage is not None:
        return outage_response(request, outage)
    return problem_response(problem_standard(500)) if request.path.startswith(API_PREFIX) else server_error(request)


def outage_response(request: HttpRequest, outage: Unavailable) -> HttpResponse:
    """The outage as the API or a page tells it; the page names nobody, since who is signed in may not be known."""
    if request.path.startswith(API_PREFIX):
        return problem_response(outage)
    back = request.get_full_path() if request.method == "GET" else request.META.get("HTTP_REFERER", "/")
    page = render_to_string("503.html", {"problem": outage, "back": back})
    return HttpResponse(page, status=503, headers=outage.headers)
