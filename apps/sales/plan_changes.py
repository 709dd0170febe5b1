"""Changes in prices and pools since a plan was made."""

from __future__ import annotations

from datetime import datetime
from fractions import Fraction
from typing import NamedTuple

from django.db.models import DurationField, ExpressionWrapper, F, Sum

from apps.accounts.problems import Problem
from apps.figures import duration_format
from apps.fleet.models import Pool
from apps.fleet.selectors import devices_of
from apps.planner.models import Plan
from apps.pricing.selectors import book_in_force
from apps.timetable.expiry import taken
from apps.timetable.models import Window, WindowState


class Changed(NamedTuple):
    """A change since a plan was made. `what` is "price-book", "pace", "processor", "devices" or "capacity"."""

    what: str
    sentence: str


def changes_of(plan: Plan, *, pool: Pool, now: datetime) -> list[Changed]:
    """Return the changes to prices and to this pool since the plan was made."""
    return [*_book(plan, now), *_pool(plan, pool), *_capacity(plan, pool, now)]


def with_changes(refusal: Problem, changes: list[Changed]) -> None:
    """Append the changes to the refusal's detail and to its list of errors."""
    if not changes:
        return
    refusal.detail = f"{refusal.detail} Since the plan was made: {' '.join(one.sentence for one in changes)}"
    refusal.errors = [*refusal.errors, *({"changed": one.what, "message": one.sentence} for one in changes)]
    refusal.args = (refusal.detail,)


def _book(plan: Plan, now: datetime) -> list[Changed]:
    book = book_in_force(at=now)
    if plan.basis.get("book") in (None, book.version):
        return []
    return [Changed("price-book", f"Price book {book.version} replaced price book {plan.basis['book']}.")]


def _pool(plan: Plan, pool: Pool) -> list[Changed]:
    before = plan.basis.get("pools", {}).get(pool.slug)
    if before is None:
        return []
    found = []
    if before["power_percent"] != pool.power_percent:
        found.append(
            Changed("pace", f"{pool.slug} runs at {pool.power_percent} % power instead of {before['power_percent']} %.")
        )
    digest = pool.processor.digest if pool.processor else ""
    if before["processor"] != digest:
        found.append(Changed("processor", f"{pool.slug} has another processor."))
    devices = sorted(one.name for one in devices_of(pool))
    lost = sorted(set(before["devices"]) - set(devices))
    if lost:
        named = ", ".join(lost[:5]) + (f" and {len(lost) - 5} more" if len(lost) > 5 else "")
        found.append(Changed("devices", f"{named} of {pool.slug} left service."))
    return found


def _capacity(plan: Plan, pool: Pool, now: datetime) -> list[Changed]:
    rows = Window.objects.filter(
        reservation__pool=pool,
        reservation__created_at__gt=plan.created_at,
        state=WindowState.ACTIVE,
        period__endswith__gt=now,
    )
    length = ExpressionWrapper(F("period__endswith") - F("period__startswith"), output_field=DurationField())
    total = taken(rows, now=now).aggregate(total=Sum(length))["total"]
    if not total:
        return []
    seconds = Fraction(int(total.total_seconds() * 10**6), 10**6)
    return [Changed("capacity", f"{duration_format(seconds)} of {pool.slug} were reserved.")]
