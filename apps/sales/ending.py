"""What ending a contract costs at an instant, before anybody ends it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from apps.ledger.models import HoldState
from apps.pricing.rating import exact_sum, hour_start
from apps.pricing.rating.decimals import subtract
from apps.sales.amendments import Rest, rest_of
from apps.sales.late import late_term
from apps.sales.models import Contract, ContractState
from apps.sales.releasing import release_free_until, release_of
from apps.sales.selectors import contract_usage


@dataclass(frozen=True)
class Ending:
    """What is charged beyond what is charged already, if the contract ends now.

    `charge` is all of it: what its class asks for unused work, what is released late, what is lacking to the contract's
    minimum. `free_until`: until then nothing of it is late; None where a part is late in any case, or nothing ever is.
    `rises_at`: when it may rise next, for as long as nothing is used; None where it cannot.
    """

    rest: Rest
    charge: Decimal
    late_count: int
    unused: int
    free_until: datetime | None
    rises_at: datetime | None

    @property
    def late_charge(self) -> Decimal:
        """What of the charge is for releasing time late."""
        return self.rest.late_charge

    @property
    def minimum(self) -> Decimal:
        """What of the charge is lacking to the contract's minimum."""
        return exact_sum(line.charge for line in self.rest.lines if line.unit == "contract")

    @property
    def breakage(self) -> Decimal:
        """What of the charge the class asks for unused work, whenever it is released."""
        return subtract(self.charge, exact_sum([self.late_charge, self.minimum]))


def ending_of(contract: Contract, *, now: datetime) -> Ending:
    """What ending costs at `now`; nothing for a contract that is over."""
    usage = contract_usage(contract)
    if contract.state != ContractState.ACTIVE or usage.hold is None or usage.hold.state != HoldState.PENDING:
        return Ending(rest_of(contract), Decimal(0), 0, 0, None, None)
    rest = rest_of(contract, late=release_of(contract, now=now, usage=usage).late)
    free = release_free_until(contract, usage)
    free = free if free is not None and now < free else None
    charge = exact_sum(line.charge for line in rest.lines)
    lines = [line for line in rest.lines if line.unit != "contract"]
    late, unused = sum(line.late for line in lines), sum(line.unused for line in lines)
    next_hour = hour_start(now) + timedelta(hours=1)
    rises = None if late_term(contract.terms) is None or late == unused else free or next_hour
    return Ending(rest, charge, late, unused, free, rises)
