"""The controller's rules, which administrators set for each pool."""

from __future__ import annotations

from dataclasses import asdict, fields
from datetime import datetime

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.fleet.models import Pool, PoolKind
from apps.reports.controller.limits import Limits
from apps.reports.models import ControllerMode, ControllerRule

FIELDS = tuple(one.name for one in fields(Limits))


def limits_of(rule: ControllerRule) -> Limits:
    """Return the limits that a rule sets."""
    return Limits(**{name: getattr(rule, name) for name in FIELDS})


def pools_ruled() -> list[Pool]:
    """Return the active pools that capacity plans cover."""
    return list(Pool.objects.filter(is_active=True, kind=PoolKind.SIMULATED).order_by("slug"))


def rules_now() -> list[ControllerRule]:
    """Return a rule for each pool that capacity plans cover. A pool without a stored rule gets an unsaved rule that
    only proposes.
    """
    pools = pools_ruled()
    stored = {
        rule.pool_id: rule for rule in ControllerRule.objects.filter(pool__in=pools).select_related("pool", "set_by")
    }
    return [stored.get(pool.pk, ControllerRule(pool=pool)) for pool in pools]


def rule_of(pool: Pool, *, is_locked: bool = False) -> ControllerRule:
    """Return the rule of a pool. If `is_locked`, the row stays locked until the transaction ends."""
    rows = ControllerRule.objects.select_for_update(no_key=True) if is_locked else ControllerRule.objects.all()
    return rows.filter(pool=pool).first() or ControllerRule(pool=pool)


@transaction.atomic
def rule_set(*, pool: Pool, mode: str, limits: Limits, actor: User, now: datetime) -> ControllerRule:
    """Set the controller's mode and limits for a pool. Raises Problem(422) if the mode or a limit is invalid."""
    if mode not in ControllerMode.values:
        raise Problem(422, "No such mode", "Choose one of the modes: off, proposes, applies.", kind="controller-rule")
    _check(limits)
    before = rule_of(pool, is_locked=True)
    values = {"mode": mode, **asdict(limits)}
    was = {name: getattr(before, name) for name in values}
    rule, _ = ControllerRule.objects.update_or_create(pool=pool, defaults={**values, "set_by": actor, "set_at": now})
    audit_record(
        action="controller.rule",
        now=now,
        actor=actor,
        subject=f"controller of pool {pool.slug}",
        detail={"before": was, "after": values},
    )
    return rule


def _check(limits: Limits) -> None:
    found = []
    if not 1 <= limits.power_least <= limits.power_most <= 100:
        found.append("Power settings must be from 1 to 100 %. The lowest setting must not be above the highest.")
    if not (0 <= limits.from_hour <= 23 and 1 <= limits.until_hour <= 24) or limits.from_hour == limits.until_hour:
        found.append("The first hour must be from 0 to 23, and the last hour from 1 to 24. The two hours must differ.")
    if not (0 <= limits.devices_a_day <= 10**6 and 0 <= limits.payback_hours <= 10**6):
        found.append("The number of devices and the number of payback hours must be whole numbers from 0 to 1,000,000.")
    if found:
        raise Problem(422, "Contradicting limits", " ".join(found), kind="controller-rule")
