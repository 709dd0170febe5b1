"""Compares usage, rating steps and posted amounts in each currency."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID

from django.db import connection
from django.db.models import F, Q, Sum

from apps.ledger.altered import compared
from apps.ledger.chain import ChainReport, chain_verify
from apps.ledger.models import AccountKind, Entry, Hold, HoldState, UsageRow
from apps.pricing.rating import Rating, decimal_text, exact_sum
from apps.pricing.rating.decimals import subtract

Amounts = dict[str, Decimal]  # by currency
NOTHING = Decimal(0)


@dataclass(frozen=True)
class Reconciliation:
    """The result of a reconciliation, with a sentence for each difference.

    The metered, rated and posted sums of each currency should be equal. `rows` is the number of usage rows.
    """

    rows: int
    metered: Amounts
    rated: Amounts
    posted: Amounts
    held_open: Amounts
    held_balance: Amounts
    differences: list[str]
    chain: ChainReport


def amounts_differ(words: str, left: Mapping[str, Decimal], right: Mapping[str, Decimal]) -> list[str]:
    """Return a sentence for each currency in which the two sums differ. Each sentence starts with `words`."""
    return [
        f"{words} is {decimal_text(subtract(left.get(code, NOTHING), right.get(code, NOTHING)))} {code}"
        for code in sorted(left.keys() | right.keys())
        if left.get(code, NOTHING) != right.get(code, NOTHING)
    ]


def reconcile(organisation_id: UUID) -> Reconciliation:
    """Compare the metered, rated and posted amounts. A difference raises an alarm."""
    count, metered, rated, differences = _rows(organisation_id)
    entries = Entry.objects.filter(transaction__organisation_id=organisation_id).order_by()
    # Credit notes take income back by postings of their own; what usage posted stays what it was.
    income = Q(transaction__kind="usage", account__kind__in=[AccountKind.REVENUE, AccountKind.BREAKAGE])
    by_currency = entries.values_list("account__currency")
    posted = {code: amount.copy_negate() for code, amount in by_currency.filter(income).annotate(sum=Sum("amount"))}
    held_balance = dict(by_currency.filter(account__kind=AccountKind.HELD).annotate(sum=Sum("amount")))
    holds = Hold.objects.filter(organisation_id=organisation_id, state=HoldState.PENDING).order_by()
    held_open = dict(holds.values_list("currency").annotate(sum=Sum(F("amount") - F("posted"))))
    differences += amounts_differ("metered minus posted", metered, posted)
    differences += amounts_differ("open holds minus the account held", held_open, held_balance)
    differences += _kept_differences(organisation_id)
    chain = chain_verify(organisation_id)
    if not chain.intact:
        differences.append(chain.reason)
    return Reconciliation(count, metered, rated, posted, held_open, held_balance, differences, chain)


def _rows(organisation_id: UUID) -> tuple[int, Amounts, Amounts, list[str]]:
    count, differences = 0, []
    metered: defaultdict[str, Decimal] = defaultdict(Decimal)
    rated: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in UsageRow.objects.filter(organisation_id=organisation_id).iterator(chunk_size=500):
        count += 1
        metered[row.currency] = exact_sum([metered[row.currency], row.amount])
        differences += compared(f"usage {row.idempotency_key}", lambda row=row: _rated(row, rated))  # type: ignore[misc]
    return count, dict(metered), dict(rated), differences


def _rated(row: UsageRow, rated: defaultdict[str, Decimal]) -> list[str]:
    rating = Rating.from_json(row.rating)
    result, name, differences = rating.steps[-1].result, f"usage {row.idempotency_key}", []
    code = str(rating.currency)
    rated[code] = exact_sum([rated[code], result])
    if result != row.amount:
        differences.append(f"{name}: its steps say {decimal_text(result)}, not {decimal_text(row.amount)}")
    if rating.currency != row.currency:
        differences.append(f"{name}: it was rated in {rating.currency}, not {row.currency}")
    if rating.executions != row.quantity or rating.counted_operations != row.operations:
        differences.append(f"{name}: counted and rated quantities differ")
    return differences


_SPEND_DIFFERS = """
SELECT coalesce(summed.month, kept.month)::text, coalesce(summed.currency, kept.currency) FROM (
    SELECT ledger_month(used.created_at, hold.created_at, hold.expires_at) AS month, used.currency,
        sum(used.amount) AS amount, count(*) AS rows
    FROM ledger_usagerow AS used LEFT JOIN ledger_hold AS hold USING (contract_id)
    WHERE used.organisation_id = %(organisation)s GROUP BY 1, 2
) AS summed FULL JOIN (
    SELECT month, currency, sum(amount) AS amount, sum(rows) AS rows
    FROM ledger_spend WHERE organisation_id = %(organisation)s GROUP BY 1, 2
) AS kept USING (month, currency)
WHERE (summed.amount, summed.rows) IS DISTINCT FROM (kept.amount, kept.rows) ORDER BY 1, 2
"""
_SUM_DIFFERS = """
SELECT DISTINCT to_char(recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI'), contract_id::text FROM (
    SELECT date_bin('15 minutes', created_at, 'epoch') AS recorded_at,
        date_bin('15 minutes', occurred_from, 'epoch') AS occurred_at, currency, contract_id, program_digest,
        coalesce(project_id::text, '') AS project, coalesce(token_id::text, '') AS token, model_name, klass, unused,
        sum(quantity) AS quantity, sum(operations) AS operations, sum(billed_operations) AS billed, sum(amount) AS amount,
        count(*) AS rows
    FROM ledger_usagerow WHERE organisation_id = %(organisation)s GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
) AS summed FULL JOIN (
    SELECT recorded_at, occurred_at, currency, contract_id, program_digest, coalesce(project_id::text, '') AS project,
        coalesce(token_id::text, '') AS token, model_name, klass, unused, quantity, operations,
        billed_operations AS billed, amount, rows
    FROM ledger_usagesum WHERE organisation_id = %(organisation)s
) AS kept USING (
    recorded_at, occurred_at, currency, contract_id, program_digest, project, token, model_name, klass, unused
)
WHERE (summed.quantity, summed.operations, summed.billed, summed.amount, summed.rows)
    IS DISTINCT FROM (kept.quantity, kept.operations, kept.billed, kept.amount, kept.rows)
ORDER BY 1, 2
"""
_HOLD_DIFFERS = """
SELECT hold.contract_id::text FROM ledger_hold AS hold LEFT JOIN ledger_usagerow AS used USING (contract_id)
WHERE hold.organisation_id = %(organisation)s
GROUP BY hold.contract_id, hold.posted HAVING hold.posted <> coalesce(sum(used.amount), 0) ORDER BY 1
"""


def _kept_differences(organisation_id: UUID) -> list[str]:
    found = []
    for sql, sentence in (
        (_SPEND_DIFFERS, "the month of {} does not hold the sum of its usage in {}"),
        (_SUM_DIFFERS, "the quarter of an hour from {} does not hold the sum of its usage of contract {}"),
        (_HOLD_DIFFERS, "contract {}: its hold posted another sum than its usage rows say"),
    ):
        with connection.cursor() as cursor:
            cursor.execute(sql, {"organisation": organisation_id})
            found += [sentence.format(*names) for names in cursor.fetchall()]
    return found
