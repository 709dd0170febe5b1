"""Plan the remainder of a contract again, and compare the new plan with the contract."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any
from uuid import UUID

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.figures import duration_format, instant_format, money_exact_format
from apps.planner.models import Plan
from apps.planner.plan_text import score_format_of_plan
from apps.planner.services import plan_create
from apps.planner.solver import Requirements
from apps.planner.solver.types import COST
from apps.pricing.rating import decimal_text
from apps.sales.amendments import amendment_check, rest_of
from apps.sales.models import Contract
from apps.sales.plans import candidate_of
from apps.sales.selectors import contract_usage
from apps.timetable.selectors import windows_of

NONE = "none"


@dataclass(frozen=True)
class Change:
    """A difference between a contract and its new plan."""

    name: str
    title: str
    before: str
    after: str
    before_text: str
    after_text: str

    @property
    def differs(self) -> bool:
        return self.before != self.after

    def to_json(self) -> dict[str, str]:
        """Return the difference for the API."""
        return {"name": self.name, "before": self.before, "after": self.after}


def contract_plan_again(*, contract: Contract, actor: User, now: datetime) -> Plan:
    """Make a new plan for the unused items of a contract. The contract does not change.

    Raises Problem(409) if the contract is over, has no plan or no unused items, or if the plan's model was deleted.
    """
    amendment_check(contract, now=now)
    plan = _plan_of(contract)
    subject = None if plan is None else plan.task or plan.model_version
    if plan is None or subject is None:
        detail = "This contract has no plan, or the model of its plan was deleted. Amend the contract manually."
        raise Problem(409, "No plan to revise", detail, kind="no-plan")
    items = items_left(contract, plan)
    if items < 1:
        raise Problem(409, "Nothing is left", "All items of this contract have been used.", kind="contract-over")
    wanted = plan.requirements
    return plan_create(
        subject=subject,
        requirements=Requirements(
            items=items,
            accuracy=_fraction(wanted.get("accuracy")),
            latency=_fraction(wanted.get("latency")),
            duration=_fraction(wanted.get("duration")),
            objective=wanted.get("objective", COST),
        ),
        klass=contract.klass,
        dims=plan.basis.get("dims") or None if plan.task is None else None,
        until=contract.ends_at,
        actor=actor,
        now=now,
        revises=str(contract.pk),
    )


def items_left(contract: Contract, plan: Plan) -> int:
    """Return the number of unused items."""
    rows = _candidate(contract, plan)["lines"]
    unused = {line.snapshot.program_id: line.unused for line in contract_usage(contract).lines}
    first = unused.get(rows[0]["program"], 0)
    return int(Fraction(first * int(plan.requirements["items"]), rows[0]["executions"]))


def revision_of(plan: Plan) -> Contract | None:
    """Return the contract that the plan proposes to revise; None if there is none."""
    pk = plan.basis.get("revises")
    related = Contract.objects.select_related("pool", "organisation", "quote")
    return related.filter(pk=UUID(pk), organisation=plan.organisation_id).first() if pk else None


def difference_of(contract: Contract, plan: Plan) -> list[Change]:
    """Return the differences between the contract and the new plan; empty if no candidate is feasible."""
    old_plan = _plan_of(contract)
    if plan.chosen is None or old_plan is None:
        return []
    return list(_changes(contract, _candidate(contract, old_plan), plan))


def _changes(contract: Contract, old: dict[str, Any], plan: Plan) -> Iterator[Change]:
    new, unit, zone = candidate_of(plan), contract.terms["currency"], contract.organisation.time_zone
    rest = rest_of(contract)

    def money(amount: str) -> str:
        return money_exact_format(amount, unit)

    def instant(text: str) -> str:
        return instant_format(datetime.fromisoformat(text), zone) if text else NONE

    yield _change("price", "Price of the unused part", decimal_text(rest.worth), new["price"], money)
    if rest.charge:
        yield _change("charge", "Charge for ending the contract", "0", decimal_text(rest.charge), money)
    yield _change("choice", "Programs", str(old.get("title", "")), str(new["title"]), str)
    yield _change("pool", "Pool", contract.pool.slug, new["pool"], str)
    measure = score_format_of_plan(plan)
    yield _change("accuracy", measure.heading, old.get("accuracy"), new["accuracy"], measure.text)
    yield _change("latency", "Latency of one item", old.get("latency"), new["latency"], duration_format)
    windows = [one for one in windows_of(contract.pk) if one.end > plan.created_at]
    end = max((one.end for one in windows), default=None)
    yield _change("completion", "All items done by", end.isoformat() if end else "", new["completion"], instant)
    ends = "1 window" if len(windows) == 1 else f"{len(windows):,} windows"
    said = f"{ends} on {contract.pool.slug} {'ends' if len(windows) == 1 else 'end'}"
    taken = f"new ones on {new['pool']} until {instant(new['completion'])}"
    yield Change("windows", "Windows", str(len(windows)), "", said, taken)


def _change(name: str, title: str, before: str | None, after: str | None, shown: Any) -> Change:
    texts = [shown(value) if value else NONE for value in (before, after)]
    return Change(name, title, before or "", after or "", *texts)


def _plan_of(contract: Contract) -> Plan | None:
    if contract.plan_id is None:
        return None
    return Plan.objects.select_related("task", "model_version").filter(pk=contract.plan_id).first()


def _candidate(contract: Contract, plan: Plan) -> dict[str, Any]:
    return candidate_of(plan, contract.terms.get("promises", {}).get("number"))


def _fraction(text: str | None) -> Fraction | None:
    return None if text is None else Fraction(text)
