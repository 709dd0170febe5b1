"""Hold the capacity of a plan for ten minutes."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.figures import duration_format, money_exact_format
from apps.planner.models import Plan
from apps.pricing.rating import decimal_text
from apps.pricing.selectors import book_of_digest
from apps.sales.hold_models import HoldState, PlanHold
from apps.sales.models import Quote
from apps.sales.plan_changes import changes_of, with_changes
from apps.sales.plans import candidate_of, plan_lines_get
from apps.sales.priced import request_lines_price
from apps.sales.request_lines import request_lines_of, window_of_document
from apps.sales.services.accepting import reserve
from apps.sales.services.hold_ending import hold_end, open_hold
from apps.sales.services.quoting import quote_create
from apps.sales.services.standing import acceptance_check
from apps.timetable.services import devices_lock

HOLD_MINUTES = 10
HOLD_LENGTH = timedelta(minutes=HOLD_MINUTES)


@transaction.atomic
def plan_hold(
    *, plan_id: UUID, organisation: Organisation, actor: User | None, now: datetime, candidate: int | None = None
) -> PlanHold:
    """Hold the windows of a plan's candidate for ten minutes, and make the quote that buys them. Safe to repeat.

    The default is the chosen candidate. Raises Problem(409) if the windows cannot be held.
    """
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    known = open_hold(plan_id)
    if known is not None and known.is_live(now=now) and _is_for(known, candidate):
        return known
    planned = plan_lines_get(organisation=organisation, plan_id=plan_id, items=None, candidate=candidate)
    plan = Plan.objects.get(pk=plan_id)
    until = now + HOLD_LENGTH
    end = (
        datetime.fromisoformat(plan.requirements["completion"])
        if plan.requirements.get("completion")
        else planned.until
    )
    if end is not None and end <= until:
        raise Problem(
            409,
            "Too late to hold",
            f"The plan's items must be done by {end:%Y-%m-%d %H:%M} UTC, which is before a hold would end. "
            "Make a quote and accept it now, or plan again.",
            kind="hold-too-late",
        )
    quote = quote_create(
        organisation=organisation,
        lines=planned.lines,
        klass=planned.klass,
        pool=planned.pool,
        window=(until, end),
        plan_id=plan_id,
        candidate=candidate,
        actor=actor,
        now=now,
    )
    if known is not None:
        devices_lock(quote.pool, known.reservation.pool)
        hold_end(known, HoldState.RELEASED if now < known.held_until else HoldState.EXPIRED)
    _limits_check(organisation, Fraction(quote.document["device_seconds"]), now=now)
    _price_check(plan, quote, candidate, now)
    acceptance_check(quote, actor=actor, now=now)
    return _take(plan, quote, until, actor, now)


def _is_for(hold: PlanHold, candidate: int | None) -> bool:
    number = hold.quote.document.get("promises", {}).get("number")
    return candidate_of(hold.plan, number) == candidate_of(hold.plan, candidate)


def _take(plan: Plan, quote: Quote, until: datetime, actor: User | None, now: datetime) -> PlanHold:
    contract_id, document = uuid4(), quote.document
    priced = request_lines_price(
        request_lines=request_lines_of(document),
        book=book_of_digest(document["book"]["digest"]),
        klass=quote.klass,
        pool=quote.pool,
        window=window_of_document(document),
        now=now,
    )
    held_until = min(until, quote.valid_until)
    try:
        reservation = reserve(
            priced, contract_id=contract_id, organisation_id=quote.organisation_id, now=now, held_until=held_until
        )
    except Problem as refusal:
        with_changes(refusal, changes_of(plan, pool=quote.pool, now=now))
        raise
    hold = PlanHold.objects.create(
        organisation_id=quote.organisation_id,
        plan=plan,
        quote=quote,
        reservation=reservation,
        contract_id=contract_id,
        held_until=held_until,
        created_by=actor,
        created_at=now,
    )
    audit_record(
        action="plan.hold",
        subject=f"plan {plan.pk}",
        actor=actor,
        organisation=quote.organisation,
        now=now,
        detail={"hold": str(hold.pk), "quote": str(quote.pk), "pool": quote.pool.slug, "until": held_until.isoformat()},
    )
    return hold


def holds_live(organisation: Organisation, *, now: datetime) -> list[PlanHold]:
    """Return the organisation's holds that are in force at `now`."""
    rows = PlanHold.objects.filter(organisation=organisation, state=HoldState.HELD, held_until__gt=now)
    return [one for one in rows.select_related("reservation", "quote") if one.is_live(now=now)]


def _limits_check(organisation: Organisation, seconds: Fraction, *, now: datetime) -> None:
    live = holds_live(organisation, now=now)
    held = sum((one.seconds for one in live), Fraction(0))
    if len(live) >= settings.HOLDS_MOST:
        said = f"Your organisation holds capacity for {len(live)} plans; the maximum is {settings.HOLDS_MOST}."
    elif held + seconds > settings.HOLD_SECONDS_MOST:
        most = duration_format(Fraction(settings.HOLD_SECONDS_MOST))
        said = (
            f"Your organisation may hold at most {most} of device time at once. It now holds {duration_format(held)}, and "
            f"this plan needs {duration_format(seconds)}."
        )
    else:
        return
    raise Problem(
        409,
        "Too much time is held",
        f"{said} Release a hold, wait until one ends, or accept the plan's quote without holding it.",
        kind="hold-limit",
    )


def _price_check(plan: Plan, quote: Quote, candidate: int | None, now: datetime) -> None:
    stated = candidate_of(plan, candidate).get("price")
    if stated is None or quote.worst <= Decimal(stated):
        return
    unit = quote.document["currency"]
    refusal = Problem(
        409,
        "The price changed",
        f"The plan states a price of {money_exact_format(stated, unit)}, but work that starts at "
        f"{quote.document['window']['start']} or later now costs {money_exact_format(quote.worst, unit)}. Nothing is held. "
        "Plan again.",
        kind="plan-changed",
        errors=[{"plan": stated, "now": decimal_text(quote.worst)}],
    )
    with_changes(refusal, changes_of(plan, pool=quote.pool, now=now))
    raise refusal
