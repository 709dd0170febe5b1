"""Usage summed over JSON: the same figures as the usage page."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema

from apps.accounts.access import organisation_get
from apps.accounts.numbers import Day
from apps.accounts.problems import Problem
from apps.portal.customers.api import router as customers_router
from apps.portal.forms import UsageForm
from apps.portal.selectors import excluded
from apps.portal.usage import Total, usage_report
from apps.pricing.rating import decimal_text
from apps.pricing.selectors import book_in_force, document_of

router = Router(tags=["invoices and usage"])
router.add_router("", customers_router)


class UsagePartOut(Schema):
    name: str
    executions: int
    counted_operations: int
    billed_operations: int
    amount: str


class DayOut(Schema):
    day: date
    executions: int
    amount: str
    parts: list[UsagePartOut]


class ExcludedOut(Schema):
    reason: str
    leases: int
    executions: int


class UsageSummaryOut(Schema):
    """In `currency`; `currencies` are all in which there may be something, each to be asked for by itself."""

    first: date
    last: date
    group: str
    currency: str
    currencies: list[str]
    whole: UsagePartOut
    parts: list[UsagePartOut]
    days: list[DayOut]
    excluded: list[ExcludedOut]


@router.get(
    "/usage/summary",
    response=UsageSummaryOut,
    operation_id="usage_summary",
    summary="Usage by day and by what it was for",
)
def usage_summary(
    request: HttpRequest,
    group: Literal["model", "project", "class", "key", "hours"] = "model",
    first: Day | None = None,
    last: Day | None = None,
    project: str = "",
    model: str = "",
    klass: str = "",
    key: str = "",
    currency: str = "",
) -> dict[str, Any]:
    """Days are those of the organisation's time zone, the last thirty unless stated, at most 366; `key` is the id of an
    API token, or `none` for what people submitted; `currency` that of the price book in force unless stated. Days
    without usage are left out."""
    organisation, now = organisation_get(request), timezone.now()
    book = book_in_force(at=now)
    form = UsageForm(request.GET, organisation=organisation, currency=book.currency, now=now)
    if not form.is_valid():
        faults = [{"message": f"{name}: {error}"} for name, errors in form.errors.items() for error in errors]
        raise Problem(
            422, "These filters do not fit", " ".join(one["message"] for one in faults), kind="filters", errors=faults
        )
    ask = form.ask()
    report = usage_report(organisation=organisation, ask=ask, book=document_of(book))
    start, end = ask.instants(organisation.time_zone)
    left_out = excluded(organisation=organisation, start=start, end=end)
    days = [
        {
            "day": day,
            "executions": one.executions,
            "amount": decimal_text(one.amount),
            "parts": [_part(part) for part in parts.values()],
        }
        for day, parts, one in report.days
        if parts
    ]
    return {
        "first": ask.first,
        "last": ask.last,
        "group": ask.group,
        "currency": ask.currency,
        "currencies": form.currencies,
        "whole": _part(report.whole),
        "parts": [_part(part) for part in report.parts],
        "days": days,
        "excluded": [one._asdict() for one in left_out],
    }


def _part(part: Total) -> dict[str, Any]:
    return {
        "name": part.name,
        "executions": part.executions,
        "counted_operations": part.operations,
        "billed_operations": part.billed,
        "amount": decimal_text(part.amount),
    }
