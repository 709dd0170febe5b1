"""Lets visitors without an account read the demo's pages. Visitors cannot change anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import ResolverMatch, reverse

from apps.accounts.access import Principal
from apps.accounts.problems import Problem
from apps.accounts.rates import client_key, rate_take
from apps.demo.visitors import COOKIE, PAGES, READABLE, READABLE_ROOMS, READING, NoSession, visitor_of

REFUSED = (
    "Nothing can be changed in this demo. Create an account to do this with your own models. Signing up takes a minute "
    "and costs nothing."
)


class Visits:
    """Identifies visitors. Must run after authentication, and before the middleware that requires a sign-in."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if COOKIE in request.COOKIES and _is_over(request):
            response.delete_cookie(COOKIE, samesite="Lax")
        return response

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponseBase], args: Any, kwargs: Any
    ) -> HttpResponseBase | None:
        match = request.resolver_match
        if match is None or COOKIE not in request.COOKIES or not _is_readable(match) or request.user.is_authenticated:
            return None
        visitor = visitor_of(request)
        if visitor is None:
            return None
        _enter(request, visitor)
        try:
            rate_take(PAGES, client_key(request))
        except Problem as problem:
            return _problem(request, problem)
        return None if request.method in READING else _refused(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Show visitors how to create an account if the viewer role may not read the page."""
        is_forbidden = isinstance(exception, PermissionDenied) and getattr(request, "visit", False)
        return _refused(request) if is_forbidden else None


def _is_over(request: HttpRequest) -> bool:
    # Signing in ends the visit, and so does opening the sign-out address.
    is_visit = getattr(request, "visit", False)
    return not is_visit and (request.user.is_authenticated or request.path == reverse("accounts:sign_out"))


def _is_readable(match: ResolverMatch) -> bool:
    return match.view_name in READABLE or (match.app_names[:1] or [""])[0] in READABLE_ROOMS


def _enter(request: HttpRequest, visitor: Principal) -> None:
    request.user = visitor.user
    request.session = NoSession()
    request._principal = visitor  # type: ignore[attr-defined]
    request.visit = True  # type: ignore[attr-defined]


def _refused(request: HttpRequest) -> HttpResponse:
    return _problem(request, Problem(403, "This is a demo", REFUSED, kind="demo"))


def _problem(request: HttpRequest, problem: Problem) -> HttpResponse:
    context = {"problem": problem, "sign_up_url": reverse("account_signup")}
    response = render(request, "demo/refused.html", context, status=problem.status)
    for name, value in problem.headers.items():
        response[name] = value
    return response
