"""End the amended contract when its amendment is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from apps.accounts.problems import Problem
from apps.figures import money_exact_format
from apps.fleet.models import Pool
from apps.sales.amendments import amendment_check, amendment_json
from apps.sales.models import Contract, Quote
from apps.sales.releasing import Takeover, takeover_stored
from apps.sales.services.contracts import contract_finish, in_flight
from apps.timetable.services import devices_lock


def contract_replace(*, contract_id: UUID, quote: Quote, now: datetime, others: Sequence[Pool] = ()) -> Contract:
    """End the contract that `quote` amends, and lock the devices of all pools involved.

    The caller must be in the transaction that accepts the quote, and must hold the organisation's lock. Raises
    Problem(409) if the contract cannot end, or if the difference stated in the quote has changed.
    """
    contract = Contract.objects.select_for_update(no_key=True).select_related("pool").get(pk=contract_id)
    amendment_check(contract, now=now)
    if in_flight(contract):
        raise Problem(
            409,
            "Jobs are running",
            "Some jobs of the contract that this quote amends are not finished. Cancel the jobs or wait.",
            kind="jobs-open",
        )
    takeover = takeover_stored(quote.document)
    _figures_check(quote, contract, takeover, now)
    devices_lock(contract.pool, quote.pool, *others, windows_of=contract.reservation_id)
    return contract_finish(contract, now, takeover=takeover)


def _figures_check(quote: Quote, contract: Contract, takeover: Takeover, now: datetime) -> None:
    # Nothing can be used after this check, because the contract is locked and has no running jobs.
    stated, today = quote.document["amends"], amendment_json(contract, quote.worst, takeover, now=now)
    if all(stated.get(key) == today.get(key) for key in ("difference", "carried")):
        return
    said, now_is = (money_exact_format(one["difference"], quote.document["currency"]) for one in (stated, today))
    raise Problem(
        409,
        "The difference changed",
        "The contract was used after this quote was made, or more of its unused time is now subject to late "
        f"cancellation. The quote states a difference of {said}, but the difference is now {now_is}. Nothing "
        "was bought. Make a new "
        "quote.",
        kind="amendment-changed",
        errors=[{"stated": stated["difference"], "now": today["difference"]}],
    )
