"""Store the proposals of new capacity plans, and apply the proposals that are within the controller's limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any
from uuid import UUID

import structlog
from django.db import transaction

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.accounts.turns import turn
from apps.dispatch.fleet import fleet_apply
from apps.fleet.current import document_now
from apps.fleet.models import FleetChange
from apps.reports.capacity_plans.services import capacity_plan_request, capacity_plan_run
from apps.reports.controller.limits import effect_of, outside
from apps.reports.controller.rules import limits_of, rule_of, rules_now
from apps.reports.models import CapacityPlan, ControllerMode, ControllerProposal, ProposalState
from apps.reports.proposals import document_of_plan

log = structlog.get_logger("controller")
DAY = timedelta(hours=24)
LATER = {"fleet-changed", "fleet-busy", "capacity-busy"}  # temporary refusals: the proposal stays open
VERBS = {
    ProposalState.APPLIED: "apply",
    ProposalState.REFUSED: "refuse",
    ProposalState.DISMISSED: "dismiss",
    ProposalState.SUPERSEDED: "supersede",
}
MATTERS = ("devices", "share")  # two proposals that agree in these are the same


def controller_turn(*, clock: Callable[[], datetime]) -> CapacityPlan | None:
    """Run the controller once. Return None if another run is in progress, or if the controller is off for every pool."""
    with turn("controller") as is_ours:
        return _turn(clock) if is_ours else None


def _turn(clock: Callable[[], datetime]) -> CapacityPlan | None:
    if all(rule.mode == ControllerMode.OFF for rule in rules_now()):
        ControllerProposal.objects.filter(state=ProposalState.OPEN).update(
            state=ProposalState.SUPERSEDED, settled_at=clock()
        )
        return None
    seen = document_now().digest
    plan = capacity_plan_run(pk=capacity_plan_request(asked_by=None, now=clock()).pk, now=clock())
    if plan.result is None:
        return plan
    for proposal in proposals_keep(plan=plan, now=clock()):
        seen = _attempt(proposal.pk, seen, clock())
    return plan


def _attempt(pk: UUID, seen: str, now: datetime) -> str:
    if not ControllerProposal.objects.filter(pk=pk, state=ProposalState.OPEN).exists():
        return seen
    try:
        done = proposal_apply(pk=pk, actor=None, expected=seen, now=now)
    except Exception as error:  # one failure must not block the others
        log.exception("proposal_failed", proposal=str(pk))
        reason = (
            error.detail if isinstance(error, Problem) else "Applying the proposal failed. The log states the cause."
        )
        ControllerProposal.objects.filter(pk=pk, state=ProposalState.OPEN).update(reason=reason)
        return seen
    return done.change.after_digest if done.change else seen


@transaction.atomic
def proposals_keep(*, plan: CapacityPlan, now: datetime) -> list[ControllerProposal]:
    """Store the proposals of a plan, and return them in the plan's order. Open proposals that are missing from the plan
    are superseded.
    """
    pools = {rule.pool.slug: rule.pool for rule in rules_now() if rule.mode != ControllerMode.OFF}
    kept: list[ControllerProposal] = []
    for part in (plan.result or {})["pools"]:
        for facts in part["proposals"] if part["pool"] in pools else ():
            row = _kept(
                ControllerProposal(plan=plan, pool=pools[part["pool"]], kind=facts["kind"], facts=facts, made_at=now)
            )
            kept += [row] if row is not None else []
    gone = ControllerProposal.objects.filter(state=ProposalState.OPEN).exclude(pk__in=[one.pk for one in kept])
    gone.update(state=ProposalState.SUPERSEDED, settled_at=now)
    return kept


def _kept(new: ControllerProposal) -> ControllerProposal | None:
    earlier = ControllerProposal.objects.filter(pool=new.pool, kind=new.kind).order_by("-made_at", "-id")
    last = earlier.select_for_update(of=("self",), no_key=True).select_related("change").first()
    is_same = last is not None and all(last.facts.get(name) == new.facts.get(name) for name in MATTERS)
    if last is not None and is_same:
        if last.state == ProposalState.DISMISSED or (last.change is not None and last.change.undone_at is not None):
            return None
        if last.state in {ProposalState.OPEN, ProposalState.REFUSED}:
            _replaced(new, besides=[last.pk])
            last.plan, last.facts, last.state = new.plan, new.facts, ProposalState.OPEN
            last.settled_at, last.settled_by = None, None
            last.save(update_fields=["plan", "facts", "state", "settled_at", "settled_by"])
            return last
    _replaced(new)
    new.save()
    return new


def _replaced(new: ControllerProposal, *, besides: Sequence[UUID] = ()) -> None:
    rows = ControllerProposal.objects.filter(pool=new.pool, kind=new.kind, state=ProposalState.OPEN).exclude(
        pk__in=besides
    )
    rows.update(state=ProposalState.SUPERSEDED, settled_at=new.made_at)


@transaction.atomic
def proposal_apply(*, pk: UUID, actor: User | None, expected: str, now: datetime) -> ControllerProposal:
    """Apply an open proposal to the fleet. If `actor` is None, the controller's limits apply.

    `expected` is the digest of the fleet that the actor saw. Raises Problem: 404 if the proposal is unknown, 409 if the
    proposal is closed.
    """
    row = _open(pk)
    if actor is None:
        allowed = rule_of(row.pool, is_locked=True)
        if allowed.mode != ControllerMode.APPLIES:
            return _waits(row, "The controller only proposes changes for this pool.")
    try:
        with transaction.atomic():
            change = _change(row, actor=actor, expected=expected, now=now)
    except _OutsideLimits as found:
        return _waits(row, str(found))
    except Problem as refusal:
        if refusal.kind in LATER:
            return _waits(row, refusal.detail)
        return _settle(row, ProposalState.REFUSED, actor=actor, now=now, reason=refusal.detail)
    if change is None:
        return _settle(row, ProposalState.SUPERSEDED, actor=actor, now=now, reason="The fleet already has this state.")
    row.change = change
    _settle(row, ProposalState.APPLIED, actor=actor, now=now)
    others = ControllerProposal.objects.filter(pool=row.pool, state=ProposalState.OPEN)
    others.update(state=ProposalState.SUPERSEDED, settled_at=now, reason="Another proposal for this pool was applied.")
    return row


class _OutsideLimits(Exception):
    """Raised if a change exceeds the controller's limits."""


def _change(row: ControllerProposal, *, actor: User | None, expected: str, now: datetime) -> FleetChange | None:
    before = document_now()
    after = document_of_plan(row.plan, pool=row.pool.slug, kind=row.kind, now=now)
    effect = effect_of(before, after, row.pool.slug)
    row.moved = effect.moved
    if actor is None:
        found = outside(
            limits_of(rule_of(row.pool)),
            effect,
            payback=payback_of(row.facts),
            moved_today=moved_since(row, now - DAY),
            now=now,
        )
        if found:
            raise _OutsideLimits(" ".join(found))
    who = "controller" if actor is None else "controller's proposal"
    _seen_check(before.digest, expected)
    return fleet_apply(
        document=after, expected=before.digest, actor=actor, now=now, note=f"{who}, capacity plan {row.plan_id}"
    )


def _seen_check(digest: str, expected: str) -> None:
    if digest != expected:
        raise Problem(
            409,
            "The fleet has changed",
            "The fleet has changed since this change was prepared. Reload the page.",
            kind="fleet-changed",
        )


def payback_of(facts: dict[str, Any]) -> Fraction | None:
    """Return the payback period of a proposal's migration in seconds; None if no programs are migrated."""
    return Fraction(facts["payback_seconds"]) if facts.get("payback_seconds") else None


def moved_since(row: ControllerProposal, start: datetime) -> int:
    """Return how many devices of the pool changed state through proposals applied after `start`. Undone changes also
    count.
    """
    rows = ControllerProposal.objects.filter(pool=row.pool, state=ProposalState.APPLIED, settled_at__gt=start)
    return sum(rows.values_list("moved", flat=True))


def _open(pk: UUID) -> ControllerProposal:
    rows = ControllerProposal.objects.select_for_update(of=("self",)).select_related("pool", "plan")
    found = rows.filter(pk=pk).first()
    if found is None:
        raise Problem(404, "No such proposal", "The controller has no such proposal.", kind="proposal-unknown")
    if found.state != ProposalState.OPEN:
        detail = f"This proposal is {found.get_state_display().lower()}; nothing was changed."
        raise Problem(409, "Proposal is closed", detail, kind="proposal-settled")
    return found


def _waits(row: ControllerProposal, reason: str) -> ControllerProposal:
    row.reason = reason
    row.save(update_fields=["reason"])
    return row


def _settle(
    row: ControllerProposal, state: ProposalState, *, actor: User | None, now: datetime, reason: str = ""
) -> ControllerProposal:
    is_known = state == ProposalState.REFUSED and row.reason == reason  # tried every hour, but recorded once
    row.state, row.reason, row.settled_at, row.settled_by = state, reason, now, actor
    row.moved = row.moved if state == ProposalState.APPLIED else 0
    row.save(update_fields=["state", "reason", "settled_at", "settled_by", "change", "moved"])
    if is_known:
        return row
    audit_record(
        action=f"controller.{VERBS[state]}",
        now=now,
        actor=actor,
        subject=f"controller proposal {row.pk}",
        detail={
            "by": "administrator" if actor else "controller",
            "pool": row.pool.slug,
            "kind": row.kind,
            "reason": reason,
            "fleet_change": row.change_id,
        },
    )
    return row


@transaction.atomic
def proposal_dismiss(*, pk: UUID, actor: User, now: datetime) -> ControllerProposal:
    """Dismiss an open proposal. Raises Problem: 404 if the proposal is unknown, 409 if the proposal is closed."""
    return _settle(_open(pk), ProposalState.DISMISSED, actor=actor, now=now)
