"""Review contracts, and propose a new plan for the remainder if the new plan is better."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.figures import instant_format, money_exact_format
from apps.ledger.models import OutboxRow
from apps.planner.models import Plan
from apps.pricing.rating import decimal_text, exact_sum
from apps.sales.amendments import rest_of
from apps.sales.models import Contract, ContractState
from apps.sales.plans import candidate_of
from apps.sales.revising import contract_plan_again
from apps.sales.revision_models import ContractReview
from apps.timetable.selectors import windows_of

MOST = 20  # contracts per run; planning one again takes up to a second
AGAIN = timedelta(hours=1)


def contracts_review_due(*, now: datetime, limit: int = MOST) -> int:
    """Review the contracts that are due, each in its own transaction. Return the number of revisions proposed."""
    open_ones = Contract.objects.filter(state=ContractState.ACTIVE, ends_at__gt=now, plan_id__isnull=False)
    due = open_ones.filter(Q(review=None) | Q(review__looked_at__lte=now - AGAIN, review__proposed=None))
    order = F("review__looked_at").asc(nulls_first=True)
    found = list(due.order_by(order, "accepted_at", "id").values_list("pk", flat=True)[:limit])
    return sum(contract_review(contract_id=pk, now=now) is not None for pk in found)


@transaction.atomic
def contract_review(*, contract_id: UUID, now: datetime) -> ContractReview | None:
    """Plan the remainder of a contract again. Return the review if the new plan is better; otherwise, return None.

    Safe to repeat. The contract does not change.
    """
    ContractReview.objects.get_or_create(contract_id=contract_id, defaults={"looked_at": now})
    review = ContractReview.objects.select_for_update(no_key=True).get(pk=contract_id)
    if review.proposed_id is not None:
        return None
    contract = Contract.objects.select_related("pool", "organisation", "quote", "accepted_by").get(pk=contract_id)
    review.looked_at = now
    mark = transaction.savepoint()
    plan = _planned(contract, now)
    reason = "" if plan is None else reason_for(contract, plan, now=now)
    if plan is None or not reason:
        transaction.savepoint_rollback(mark)
        review.save(update_fields=["looked_at"])
        return None
    transaction.savepoint_commit(mark)
    review.proposed, review.reason = plan, reason[:300]
    review.save(update_fields=["looked_at", "proposed", "reason"])
    _announce(contract, plan, reason, now)
    return review


def _planned(contract: Contract, now: datetime) -> Plan | None:
    known = Plan.objects.select_related("created_by")
    made = known.filter(pk=contract.plan_id).first() if contract.plan_id else None
    if made is None:
        return None
    actor: User = contract.accepted_by or made.created_by
    try:
        with transaction.atomic():
            return contract_plan_again(contract=contract, actor=actor, now=now)
    except Problem:
        return None


def reason_for(contract: Contract, plan: Plan, *, now: datetime) -> str:
    """Return the reason why the new plan is better; empty if it is not better."""
    if plan.chosen is None:
        return ""
    promises = contract.terms.get("promises", {})
    promised: dict[str, Any] = promises.get("candidate", {})
    new, zone = candidate_of(plan), contract.organisation.time_zone
    ends = max((one.end for one in windows_of(contract.pk) if one.end > now), default=None)
    if "completion" in promised and ends is not None and new["completion"]:
        by, done = (datetime.fromisoformat(text) for text in (promised["completion"], new["completion"]))
        if done <= by < ends:
            return (
                f"The contract promised all items by {instant_format(by, zone)}. The reserved windows end at "
                f"{instant_format(ends, zone)}, but a new plan would finish by {instant_format(done, zone)}."
            )
    rest = rest_of(contract)
    cost = exact_sum((Decimal(new["price"]), rest.charge))
    # A customer who chose another candidate than the cheapest knows of the cheaper one.
    if promises.get("number") is None and cost < rest.worth:
        was, now_is = (money_exact_format(amount, contract.terms["currency"]) for amount in (rest.worth, cost))
        return (
            f"The rest of the contract costs {was}. A new plan for the rest costs {now_is}, including the charge for ending "
            "the contract."
        )
    return ""


def _announce(contract: Contract, plan: Plan, reason: str, now: datetime) -> None:
    price = decimal_text(Decimal(candidate_of(plan)["price"]))
    detail = {"contract": str(contract.pk), "plan": str(plan.pk), "price": price, "reason": reason}
    audit_record(
        action="contract.revision",
        subject=f"contract {contract.pk}",
        organisation=contract.organisation,
        now=now,
        detail=detail,
    )
    OutboxRow.objects.create(
        organisation=contract.organisation, topic="contract.revision", payload=detail, created_at=now
    )
