"""What administrators let the controller do, by pool."""

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
    """The limits of a rule."""
    return Limits(**{name: getattr(rule, name) for name in FIELDS})


def pools_ruled() -> list[Pool]:
    """Pools that capacity plans look at: those in use, without hosts."""
    return list(Pool.objects.filter(is_active=True, kind=PoolKind.SIMULATED).order_by("slug"))


def rules_now() -> list[ControllerRule]:
    """One for each such pool; where nothing was set the one that only proposes, unsaved. In two queries."""
    pools = pools_ruled()
    stored = {
        rule.pool_id: rule for rule in ControllerRule.objects.filter(pool__in=pools).select_related("pool", "set_by")
    }
    return [stored.get(pool.pk, ControllerRule(pool=pool)) for pool in pools]


def rule_of(pool: Pool, *, is_locked: bool = False) -> ControllerRule:
    """That of one pool; with `is_locked` nobody changes it until the transaction ends."""
    rows = ControllerRule.objects.select_for_update(no_key=True) if is_locked else ControllerRule.objects.all()
    return rows.filter(pool=pool).first() or ControllerRule(pool=pool)


@transaction.atomic
def rule_set(*, pool: Pool, mode: str, limits: Limits, actor: User, now: datetime) -> ControllerRule:
    """Lets the controller do so much to a pool from now on. Raises Problem(422) where the limits contradict themselves."""
    if mode not in ControllerMode.values:
        raise Problem(422, "No such mode", "The mode is off, proposes or applies.", kind="controller-rule")
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
        found.append("Power goes from 1 to 100 %, and the lowest setting is at most the highest.")
    if not (0 <= limits.from_hour <= 23 and 1 <= limits.until_hour <= 24) or limits.from_hour == limits.until_hour:
        found.append("Hours are two different ones, from 0 to 23 until 1 to 24.")
    if not (0 <= limits.devices_a_day <= 10**6 and 0 <= limits.payback_hours <= 10**6):
        found.append("Devices and hours of pay-back are whole numbers from 0 to 1,000,000.")
    if found:
        raise Problem(422, "Limits that cannot hold", " ".join(found), kind="controller-rule")
