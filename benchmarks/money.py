"""Quote = held = preview = invoice = offline recomputation: `python -m benchmarks.money [PURE] [STORED] [YEARS] [WALKED]`.

PURE cases by the rating function alone, of every form of contract, in three zones on days of 23 and 25 hours, in currencies
of 0, 2 and 3 decimals; then STORED contracts through the database by the product's own services.

Then YEARS random years of a customer, each invoiced, voided and credited in three orders over random ids by the rules alone,
and WALKED years (sold, used, amended, ended late, credited, in two currencies) through the database in three orders: each must
come to what the year's facts come to, computed without any invoice. Faults of the rules are planted, and each must be found.
Prints what was compared; ends with status 1 at the first difference.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from decimal import Decimal

from apps.pricing.rating import decimal_text
from benchmarks.arguments import counts
from benchmarks.private import house


def main(arguments: list[str]) -> int:
    pure, stored, years, walked = counts("money", __doc__, arguments, pure=10_000, stored=300, years=1_000, walked=25)
    _pure(pure)
    right = _years(years)
    with house():
        _walked(walked)  # leaves nothing behind
        _stored(stored)
    return 0 if right else 1


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


def _years(count: int) -> bool:
    from tests.money.clicks import clicks_of, invoiced
    from tests.money.planted import FAULTS, found_after, planted
    from tests.money.years import total_of, year_of

    wrong, clicks, payable = [], 0, Decimal(0)
    for seed in range(count):
        dice = random.Random(seed)
        year = year_of(dice)
        total = total_of(year)
        for order in ([], clicks_of(dice), clicks_of(dice)):
            clicks += len(order)
            wrong += [seed] if invoiced(year, order, dice) != total else []
        payable += Decimal(total.payable.numerator) / total.payable.denominator
    print(
        f"{count:,} random years in three orders ({clicks:,} clicks), {payable:,.2f} asked for: {len(wrong)} differences"
    )
    missed = []
    for name in FAULTS:
        with planted(name):
            after = found_after(count)
        missed += [] if after else [name]
        print(f"  planted, {name}: " + (f"found in year {after}" if after else "NOT FOUND"))
    return not wrong and not missed


def _walked(count: int) -> None:
    from django.db import transaction

    from tests.cast import assemble
    from tests.money.years_stored import years_compare

    with transaction.atomic():
        done = years_compare(assemble(), count)
        transaction.set_rollback(True)
    print(
        f"{done.years:,} years through the database in {done.orders:,} orders over new ids: {done.invoices:,} invoices, "
        f"{done.void:,} of them void, {done.notes:,} other credit notes, {done.late:,} late cancellations, all verified "
        "offline and reconciled; 0 differences"
    )


def _stored(count: int) -> None:
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
