"""The cost of ending a contract."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from apps.ledger.models import HoldState
from apps.pricing.rating import exact_sum, hour_start
from apps.pricing.rating.decimals import subtract
from apps.sales.amendments import Rest, rest_of
from apps.sales.late_cancellation import late_term
from apps.sales.models import Contract, ContractState
from apps.sales.releasing import release_free_until, release_of
from apps.sales.selectors import ContractUsage, contract_usage


@dataclass(frozen=True)
class Ending:
    """The additional charge if the contract ends now.

    `free_until`: the instant before which there is no late charge; None if there is no such instant. `rises_at`: the
    next instant at which the charge may rise; None if the charge cannot rise.
    """

    rest: Rest
    charge: Decimal
    late_count: int
    unused: int
    free_until: datetime | None
    rises_at: datetime | None

    @property
    def late_charge(self) -> Decimal:
        return self.rest.late_charge

    @property
    def minimum(self) -> Decimal:
        return exact_sum(line.charge for line in self.rest.lines if line.unit == "contract")

    @property
    def breakage(self) -> Decimal:
        return subtract(self.charge, exact_sum([self.late_charge, self.minimum]))


def ending_of(contract: Contract, *, now: datetime) -> Ending:
    """Return the cost of ending a contract at `now`. The charge is 0 if the contract is already over."""
    usage = contract_usage(contract)
    if contract.state != ContractState.ACTIVE or usage.hold is None or usage.hold.state != HoldState.PENDING:
        return Ending(rest_of(contract), Decimal(0), 0, 0, None, None)
    rest = rest_of(contract, late=release_of(contract, now=now, usage=usage).late)
    charge = exact_sum(line.charge for line in rest.lines)
    lines = [line for line in rest.lines if line.unit != "contract"]
    late, unused = sum(line.late for line in lines), sum(line.unused for line in lines)
    free = _free_until(contract, usage, now)
    return Ending(rest, charge, late, unused, free, _rises_at(contract, free, is_all_late=late == unused, now=now))


def _free_until(contract: Contract, usage: ContractUsage, now: datetime) -> datetime | None:
    until = release_free_until(contract, usage)
    return until if until is not None and now < until else None


def _rises_at(contract: Contract, free: datetime | None, *, is_all_late: bool, now: datetime) -> datetime | None:
    if late_term(contract.terms) is None or is_all_late:
        return None
    return free or hour_start(now) + timedelta(hours=1)
