"""The API for usage, with the same figures as the usage page."""

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
    """Amounts are in `currency`. `currencies` lists every currency that may have usage. Make one request per currency."""

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
    summary="Usage by day and group",
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
    """Days are in the organisation's time zone. By default, the last 30 days are covered. At most 366 days can be
    covered. Days without usage are omitted.

    `key` is the id of an API token, or `none` for jobs that people submitted. The default `currency` is that of the
    price book in force.
    """
    organisation, now = organisation_get(request), timezone.now()
    book = book_in_force(at=now)
    form = UsageForm(request.GET, organisation=organisation, currency=book.currency, now=now)
    if not form.is_valid():
        faults = [{"message": f"{name}: {error}"} for name, errors in form.errors.items() for error in errors]
        raise Problem(422, "Invalid filters", " ".join(one["message"] for one in faults), kind="filters", errors=faults)
    query = form.query()
    report = usage_report(organisation=organisation, query=query, book=document_of(book))
    start, end = query.interval(organisation.time_zone)
    not_billed = excluded(organisation=organisation, start=start, end=end)
    days = [
        {
            "day": day,
            "executions": one.executions,
            "amount": decimal_text(one.amount),
            "parts": [_group(one) for one in groups.values()],
        }
        for day, groups, one in report.days
        if groups
    ]
    return {
        "first": query.first,
        "last": query.last,
        "group": query.group,
        "currency": query.currency,
        "currencies": form.currencies,
        "whole": _group(report.total),
        "parts": [_group(one) for one in report.groups],
        "days": days,
        "excluded": [one._asdict() for one in not_billed],
    }


def _group(total: Total) -> dict[str, Any]:
    return {
        "name": total.name,
        "executions": total.executions,
        "counted_operations": total.operations,
        "billed_operations": total.billed,
        "amount": decimal_text(total.amount),
    }
