"""The views that begin and end a demo visit."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from apps.accounts.rates import limited
from apps.demo.visitors import COOKIE, VISITS, visit_begin, visit_open


@login_not_required
@never_cache
@require_POST
@limited(VISITS)
def visit(request: HttpRequest) -> HttpResponse:
    """Begin a visit without an account."""
    if not visit_open():
        raise Http404
    response = _see("portal:portal")
    if not request.user.is_authenticated:
        visit_begin(response)
    return response


@login_not_required
@never_cache
@require_POST
def leave(request: HttpRequest) -> HttpResponse:
    """End the visit."""
    response = _see("home")
    response.delete_cookie(COOKIE, samesite="Lax")
    return response


def _see(name: str) -> HttpResponse:
    # With status 303, the browser requests the page with GET.
    return HttpResponse(status=303, headers={"Location": reverse(name)})
