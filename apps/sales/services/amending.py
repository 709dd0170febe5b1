"""Ending the rest of a contract because a quote that amends it is accepted."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from apps.accounts.problems import Problem
from apps.fleet.models import Pool
from apps.sales.amendments import amendment_check
from apps.sales.models import Contract
from apps.sales.services.contracts import contract_finish, in_flight
from apps.timetable.services import devices_lock


def contract_replace(*, contract_id: UUID, pool: Pool, now: datetime) -> Contract:
    """End a contract within the transaction that accepts its amendment on `pool`, under the organisation's lock.

    The devices of both pools are locked together, by id, before the ledger is touched. Raises Problem(409): the contract
    is over, or jobs of it are not finished.
    """
    contract = Contract.objects.select_for_update(no_key=True).select_related("pool").get(pk=contract_id)
    amendment_check(contract, now=now)
    if in_flight(contract):
        raise Problem(
            409,
            "Jobs are running",
            "Jobs of the contract that this quote amends are not finished; cancel them or wait.",
            kind="jobs-open",
        )
    devices_lock(contract.pool, pool)
    return contract_finish(contract, now)
