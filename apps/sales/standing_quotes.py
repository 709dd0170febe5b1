"""Quote the work of a standing request, and check the right to buy."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from apps.accounts.models import ApiToken, Membership, User
from apps.accounts.problems import Problem
from apps.accounts.roles import BUYING, Scope
from apps.compilation.models import Program
from apps.pricing.rating import digest_of
from apps.sales.lines import Quota, QuoteLine
from apps.sales.models import FormName, Quote, StandingRequest
from apps.sales.request_lines import QuoteRequestLine, request_lines_of, window_of_document
from apps.sales.volumes import Form

PERIODIC = {FormName.SPREAD, FormName.INTERVAL}  # the period is part of the work


def quote_arguments(quote: Quote) -> dict[str, Any]:
    """Return the arguments with which `quote_create` quotes the same work.

    Raises Problem if the quote was altered, or if a program no longer exists.
    """
    if digest_of(quote.document) != quote.digest:
        raise Problem(409, "Quote altered", "The stored quote was altered after it was made.", kind="quote-altered")
    request_lines, form = request_lines_of(quote.document), Form.from_json(quote.document.get("form"))
    measured = any(request_line.measured for request_line in request_lines)
    if request_lines[0].snapshot.is_quota:
        return {
            "lines": Quota(request_lines[0].snapshot.precision, request_lines[0].snapshot.operations // 10**12),
            "form": form,
            "measured": measured,
        }
    programs = Program.objects.select_related("model_version__model__project").filter(
        organisation=quote.organisation_id
    )
    known = programs.in_bulk([UUID(request_line.snapshot.program_id) for request_line in request_lines])
    if len(known) < len(request_lines):
        raise Problem(409, "Program no longer exists", "A program of this request no longer exists.", kind="not-found")
    return {
        "lines": [
            _line(known[UUID(request_line.snapshot.program_id)], request_line, form) for request_line in request_lines
        ],
        "form": form,
        "measured": measured,
    }


def _line(program: Program, request_line: QuoteRequestLine, form: Form) -> QuoteLine:
    if form.name == FormName.INTERVAL and request_line.schedule is not None:
        return QuoteLine(program, request_line.schedule.each)
    return QuoteLine(program, request_line.executions, request_line.expected, request_line.planned)


def waits_until(quote: Quote, until: datetime) -> datetime:
    """Return the first instant at which it is too late to serve the request."""
    return min(until, window_of_document(quote.document).start) if quote.form in PERIODIC else until


def missing_right(request: StandingRequest, *, now: datetime) -> str:
    """Return the reason why the person or API token behind the request may not buy now; empty if the purchase is allowed."""
    user: User = request.filed_by
    member = Membership.objects.filter(user=user, organisation=request.organisation_id, role__in=BUYING)
    if not user.is_active or not member.exists():
        return f"{user.name or user.email} may no longer buy for the organisation."
    token: ApiToken | None = request.token
    if token is not None and (not token.is_valid(now=now) or Scope.BUY not in token.scopes):
        return f"The API token {token.name} may no longer buy."
    return ""
