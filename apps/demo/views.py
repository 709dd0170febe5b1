"""The door of the demonstration."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from apps.accounts.rates import limited
from apps.demo.visitors import COOKIE, VISITS, visit_begin, visit_open


@login_not_required
@never_cache
@require_POST
@limited(VISITS)
def visit(request: HttpRequest) -> HttpResponse:
    """Look around without an account."""
    if not visit_open():
        raise Http404
    response = redirect("portal:portal")
    if not request.user.is_authenticated:
        visit_begin(response)
    return response


@login_not_required
@never_cache
@require_POST
def leave(request: HttpRequest) -> HttpResponse:
    """End the visit."""
    response = redirect("home")
    response.delete_cookie(COOKIE, samesite="Lax")
    return response
