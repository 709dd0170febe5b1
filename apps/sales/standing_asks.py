"""What a standing request asks for, as quoting takes it, and who may still ask."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from apps.accounts.models import ApiToken, Membership, User
from apps.accounts.problems import Problem
from apps.accounts.roles import BUYING, Scope
from apps.compilation.models import Program
from apps.pricing.rating import digest_of
from apps.sales.asks import Ask, asks_of, window_of_document
from apps.sales.lines import Quota, QuoteLine
from apps.sales.models import FormName, Quote, StandingRequest
from apps.sales.volumes import Form

PERIODIC = {FormName.SPREAD, FormName.INTERVAL}  # the period is part of what is asked


def asked_of(quote: Quote) -> dict[str, Any]:
    """`lines`, `form` and `measured` of a stored quote, for `quote_create`. Raises Problem: it was altered, or a program is
    gone."""
    if digest_of(quote.document) != quote.digest:
        raise Problem(
            409, "Quote altered", "What is stored of this quote is no longer what was quoted.", kind="quote-altered"
        )
    asks, form = asks_of(quote.document), Form.from_json(quote.document.get("form"))
    measured = any(ask.measured for ask in asks)
    if asks[0].facts.is_quota:
        return {
            "lines": Quota(asks[0].facts.precision, asks[0].facts.operations // 10**12),
            "form": form,
            "measured": measured,
        }
    programs = Program.objects.select_related("model_version__model__project").filter(
        organisation=quote.organisation_id
    )
    known = programs.in_bulk([UUID(ask.facts.program_id) for ask in asks])
    if len(known) < len(asks):
        raise Problem(409, "Program is gone", "A program of this request does not exist any more.", kind="not-found")
    return {
        "lines": [_line(known[UUID(ask.facts.program_id)], ask, form) for ask in asks],
        "form": form,
        "measured": measured,
    }


def _line(program: Program, ask: Ask, form: Form) -> QuoteLine:
    if form.name == FormName.INTERVAL and ask.schedule is not None:
        return QuoteLine(program, ask.schedule.each)
    return QuoteLine(program, ask.executions, ask.expected, ask.planned)


def waits_until(quote: Quote, until: datetime) -> datetime:
    """The first instant at which it is too late: work that belongs to a stated period must be sold before that begins."""
    return min(until, window_of_document(quote.document).start) if quote.form in PERIODIC else until


def right_lost(request: StandingRequest, *, now: datetime) -> str:
    """Why whoever filed the request could not accept a quote now; empty while they can."""
    user: User = request.filed_by
    member = Membership.objects.filter(user=user, organisation=request.organisation_id, role__in=BUYING)
    if not user.is_active or not member.exists():
        return f"{user.name or user.email} may no longer buy for the organisation."
    token: ApiToken | None = request.token
    if token is not None and (not token.is_valid(now=now) or Scope.BUY not in token.scopes):
        return f"The API token {token.name} may no longer buy."
    return ""
