"""Two things that every request passes: its line in the log, and the closed door."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

import structlog
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render

from apps.accounts.problems import Problem

API_PREFIX = "/api/"
QUIET = frozenset({"/healthz", "/readyz", "/metrics"})

log = structlog.get_logger("request")


def request_log(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """One structured line for each request, with an id that the response carries too."""

    def middleware(request: HttpRequest) -> HttpResponse:
        request_id = uuid.uuid4().hex
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


class SignInRequired(LoginRequiredMiddleware):
    """Every page needs a sign-in unless its view says `login_not_required`. The API has its own door, closed by default."""

    def process_view(
        self, request: HttpRequest, view_func: Callable[..., HttpResponseBase], view_args: Any, view_kwargs: Any
    ) -> HttpResponseBase | None:
        if request.path.startswith(API_PREFIX):
            return None
        return super().process_view(request, view_func, view_args, view_kwargs)


class ProblemPages:
    """A refusal that a service raised under a page becomes a page with its title and its sentence."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, Problem):
            return None
        return render(request, "problem.html", {"problem": exception}, status=exception.status)
