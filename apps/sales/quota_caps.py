"""Spend caps of projects for quota contracts.

Operations that a job reserves count at once against the spend cap of the job's project.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import Sum

from apps.ledger.models import UsageSum
from apps.ledger.selectors import caps_like, spending
from apps.ledger.services import CapReached, cap_in
from apps.pricing.rating import Terms, exact_sum, rate
from apps.sales.models import Contract, ContractLine, ContractState, FormName
from apps.sales.snapshots import ProgramSnapshot


def quota_promised(*, organisation_id: UUID, project_id: UUID, currency: str) -> Decimal:
    """Return the value of the quota operations that a project's jobs have reserved but not used."""
    promised = quotas_promised(organisation_id=organisation_id, project_id=project_id)
    return promised.get((project_id, currency), Decimal(0))


def quotas_promised(*, organisation_id: UUID, project_id: UUID | None = None) -> dict[tuple[UUID, str], Decimal]:
    """Return the value of reserved but unused quota operations, by project and currency.

    `project_id`: the only project to include; None for all projects.
    """
    lines = ContractLine.objects.filter(
        contract__organisation=organisation_id,
        contract__form=FormName.QUOTA,
        contract__state=ContractState.ACTIVE,
        taken__gt=0,
    )
    if project_id is not None:
        lines = lines.filter(facts__project_id=str(project_id))
    rows = list(lines.select_related("contract"))
    used = UsageSum.objects.filter(contract_id__in=[row.contract_id for row in rows], unused=False)
    done = {
        (one["contract_id"], one["program_digest"]): int(one["sum"])
        for one in used.values("contract_id", "program_digest").annotate(sum=Sum("quantity")).order_by()
    }
    found: dict[tuple[UUID, str], Decimal] = {}
    for row in rows:
        still = row.taken - done.get((row.contract_id, row.program_digest), 0)
        project = (row.facts or {}).get("project_id")
        if still > 0 and project:
            key = (UUID(project), row.contract.currency)
            more = draw_amount(row.contract, row.facts or {}, still)
            found[key] = exact_sum([found.get(key, Decimal(0)), more])
    return found


def draw_amount(contract: Contract, snapshot: Mapping[str, object], executions: int) -> Decimal:
    """Return the price of executions that draw from a quota."""
    terms = Terms.from_json(contract.terms["lines"][0]["rating"]["terms"])
    book = contract.book
    counts = ProgramSnapshot.from_json(dict(snapshot)).counts
    return rate(book=book, counts=counts, executions=executions, terms=terms).amount


def project_cap_check(
    *,
    organisation_id: UUID,
    project_id: UUID,
    amount: Decimal,
    currency: str,
    now: datetime,
    only_promised: bool = False,
) -> None:
    """Raise CapReached if `amount` and the project's quota reservations exceed the project's spend cap.

    Raises CapMissing if the project has caps in other currencies only. The caller must hold the organisation's lock.
    `only_promised`: do nothing if the project has no quota reservations.
    """
    cap = cap_in(caps_like(organisation_id, project_id=project_id), currency=currency)
    if cap is None:
        return
    promised = quota_promised(organisation_id=organisation_id, project_id=project_id, currency=currency)
    if only_promised and not promised:
        return
    spent = spending(organisation_id=organisation_id, currency=currency, now=now, project_id=project_id)
    committed = exact_sum([spent.committed, promised])
    if exact_sum([committed, amount]) > cap.amount:
        raise CapReached(cap=cap, committed=committed, amount=amount)
