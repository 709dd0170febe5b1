"""Quote = held = preview = invoice = offline recomputation: `python -m benchmarks.money [PURE] [STORED]`.

PURE cases by the rating function alone, of every form of contract, in three zones on days of 23 and 25 hours, in currencies
of 0, 2 and 3 decimals; then STORED contracts through the database by the product's own services. Prints what was compared;
ends with status 1 at the first difference.
"""

from __future__ import annotations

import sys
from collections import Counter
from decimal import Decimal

from apps.pricing.rating import decimal_text
from benchmarks.arguments import counts
from benchmarks.private import house


def main(arguments: list[str]) -> int:
    pure, stored = counts("money", __doc__, arguments, pure=10_000, stored=300)
    _pure(pure)
    _stored(stored)
    return 0


def _pure(count: int) -> None:
    from tests.money.cases import cases, quoted
    from tests.money.equalities import check, check_quota

    forms: Counter[str] = Counter()
    amounts: list[Decimal] = []
    for case in cases(count):
        check(case)
        check_quota(case)
        forms[case.terms.form] += 1
        forms["quota"] += 1
        forms["priority"] += case.terms.klass == "priority"
        forms["used in full"] += case.full
        amounts.append(quoted(case).amount)
    print(f"{count:,} pure cases, no difference without a name; amounts from {min(amounts):.2e} to {max(amounts):.2e}")
    print("  " + ", ".join(f"{name} {number:,}" for name, number in sorted(forms.items())))


def _stored(count: int) -> None:
    with house():
        from tests.cast import assemble
        from tests.money.walk import book_change, walk
        from tests.sales.market import open_market

        done = walk(assemble(), open_market(devices=4, change=book_change), count)
    print(
        f"{done.contracts:,} contracts through the database ({done.full:,} used in full, {done.leases:,} leases, "
        f"{done.lines:,} invoice lines): quoted = held = posted + released, invoiced {decimal_text(done.net)} EUR, verified "
        "offline"
    )
    print("  " + ", ".join(f"{name} {number:,}" for name, number in sorted(done.kinds.items())))
    print("  differences, each with its name: " + ", ".join(f"{name} {n:,}" for name, n in sorted(done.named.items())))
    print(f"  the month run a second time from the same state: the same {done.replayed:,} bytes (invoice, CSV, chain)")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
