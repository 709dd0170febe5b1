"""Contracts of any kind, used up in full: `python -m benchmarks.equality [CONTRACTS] [SEED]`.

For each: a random program, volume and class is quoted, accepted, metered in random leases, and invoiced. Net of the invoice
must be net of the quotes, exactly, and payable must be that, rounded once.
"""

from __future__ import annotations

import random
import sys
import time
from datetime import timedelta
from decimal import Decimal

from benchmarks.arguments import counts
from benchmarks.private import house


def main(arguments: list[str]) -> int:
    contracts, seed = counts("equality", __doc__, arguments, contracts=100, seed=0)
    with house():
        return _run(contracts, random.Random(seed))


def _run(contracts: int, dice: random.Random) -> int:
    from apps.invoicing.reconciliation import reconcile_all
    from apps.invoicing.services import invoice_issue
    from apps.pricing.rating import decimal_text, exact_sum, payable_of
    from apps.sales.services import quote_accept, quote_create
    from tests.cast import assemble
    from tests.invoicing.test_equality import _leases
    from tests.sales.market import NOW, open_market
    from tests.sales.test_contracts import run

    cast, market, began = assemble(), open_market(devices=2), time.monotonic()
    quoted: list[Decimal] = []
    leases = 0
    for _ in range(contracts):
        program = market.program(
            cast.organisation,
            cast.engineer,
            operations=dice.randrange(10 ** dice.randrange(1, 13)),
            interval=dice.randrange(1, 10 ** dice.randrange(1, 7)),
        )
        quote = quote_create(
            organisation=cast.organisation,
            lines=[(program, dice.randrange(1, 10 ** dice.randrange(1, 7)))],
            klass=dice.choice(["standard", "priority", "batch", "off_peak"]),
            pool=market.lpu,
            actor=None,
            now=NOW,
        )
        contract = quote_accept(quote_id=quote.id, organisation=cast.organisation, actor=None, now=NOW)
        quoted.append(quote.worst)
        for executions in _leases(dice, contract.terms["lines"][0]["executions"]):
            run(contract, executions)
            leases += 1
    invoice = invoice_issue(organisation=cast.organisation, actor=None, now=NOW + timedelta(minutes=1))
    total = exact_sum(quoted)
    rounded = payable_of(total, exponent=2)
    print(f"{contracts} contracts, {leases} leases, {time.monotonic() - began:.1f} s")
    print(f"  quoted   {decimal_text(total)}")
    print(f"  invoiced {decimal_text(invoice.net)}")
    print(f"  payable  {decimal_text(invoice.payable)}, rounding {decimal_text(rounded.correction.copy_negate())}")
    differences = reconcile_all(cast.organisation).differences
    print(f"  differences between metered, rated, posted and invoiced: {len(differences)}")
    right = invoice.net == total and invoice.payable == rounded.payable and not differences
    print("net is net, payable is rounded once" if right else "WRONG")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
