"""Middleware for the request log, rate limits, sign-in and error responses."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import structlog
from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

from apps.accounts.outages import RETRY_AFTER_SECONDS, unavailable_of
from apps.accounts.problems import CONTENT_TYPE, Problem, problem_response, problem_standard
from apps.accounts.rates import Rate, client_key, rate_take
from apps.config.failures import defect_problem, outage_response

API_PREFIX = "/api/"
QUIET = frozenset({"/healthz", "/readyz", "/metrics"})

log = structlog.get_logger("request")


def request_log(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Log one structured line for each request. The response carries the same request id."""

    def middleware(request: HttpRequest) -> HttpResponse:
        request_id = uuid.uuid4().hex
        request.request_id = request_id  # type: ignore[attr-defined]  # error pages name it
        started = time.perf_counter()
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            response = get_response(request)
            if request.path not in QUIET and not request.path.startswith("/static/"):
                milliseconds = round((time.perf_counter() - started) * 1000, 1)
                log.info(
                    "request", method=request.method, path=request.path, status=response.status_code, ms=milliseconds
                )
        response["X-Request-ID"] = request_id
        return response

    return middleware


def api_rates(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Limit the rate of API requests from each client address."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.path.startswith(API_PREFIX):
            try:
                rate_take(Rate("api-address", settings.API_PER_MINUTE_ADDRESS, 60), client_key(request))
            except Problem as refusal:
                return problem_response(refusal)
        return get_response(request)

    return middleware


def nul_refused(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Respond with 400 if the address contains a NUL character, because PostgreSQL cannot store NUL."""

    def middleware(request: HttpRequest) -> HttpResponse:
        is_page = not request.path.startswith(API_PREFIX)
        if "\0" in request.path or (is_page and "%00" in request.META.get("QUERY_STRING", "")):
            raise BadRequest("The address contains a NUL character.")
        return get_response(request)

    return middleware


class SignInRequired(LoginRequiredMiddleware):
    """Require a sign-in for every page whose view is not marked `login_not_required`. The API authenticates separately."""

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., HttpResponseBase], view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        if request.path.startswith(API_PREFIX):
            return None
        return super().process_view(request, view_func, view_args, view_kwargs)


class ApiProblems:
    """Return every error under /api/ as problem+json."""

    KEPT = ("Allow", "Retry-After", "WWW-Authenticate")

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not request.path.startswith(API_PREFIX) or response.status_code < 400:
            return response
        if response.get("Content-Type", "").startswith(CONTENT_TYPE):
            return response
        status = response.status_code
        problem = problem_response(defect_problem(request) if status == 500 else problem_standard(status))
        for name in self.KEPT:
            if name in response:
                problem[name] = response[name]
        return problem


class ProblemPages:
    """Turn a problem raised by a service into an error page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code == 503:  # also of a form that shows the refusal beside what was entered
            response.setdefault("Retry-After", str(RETRY_AFTER_SECONDS))
        return response

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        outage = unavailable_of(exception)
        if outage is not None:
            log.warning("outage", path=request.path, error=f"{type(exception).__name__}: {exception}"[:200])
            return outage_response(request, outage)
        if not isinstance(exception, Problem):
            return None
        response = render(request, "problem.html", {"problem": exception}, status=exception.status)
        for name, value in exception.headers.items():
            response[name] = value
        return response
