"""What reads the ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import F, OuterRef, Q, QuerySet, Subquery, Sum

from apps.ledger.chain import chain_verify, day_roots
from apps.ledger.models import Account, AccountKind, Cap, Entry, Hold, HoldState, UsageRow
from apps.pricing.rating import Rating, exact_sum
from apps.pricing.rating.decimals import subtract

__all__ = [
    "Reconciliation",
    "Spending",
    "balance_of",
    "balances",
    "cap_of",
    "caps_like",
    "caps_of",
    "chain_verify",
    "day_roots",
    "hold_of",
    "month_of",
    "reconcile",
    "spending",
    "usage_of",
]


@dataclass(frozen=True)
class Spending:
    """A month so far: posted usage, and what open holds still set aside."""

    used: Decimal
    held: Decimal
    currency: str

    @property
    def committed(self) -> Decimal:
        """What counts against the cap."""
        return exact_sum([self.used, self.held])


@dataclass(frozen=True)
class Reconciliation:
    """Metered, rated, posted: counts and sums that must be equal, and every difference in a sentence."""

    rows: int
    metered: Decimal
    rated: Decimal
    posted: Decimal
    held_open: Decimal
    held_balance: Decimal
    differences: list[str]


def month_of(now: datetime) -> tuple[datetime, datetime]:
    """The calendar month (UTC) around an instant, half-open."""
    start = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return start, (start + timedelta(days=32)).replace(day=1)


_SPENT = """
SELECT
    (SELECT coalesce(sum(amount), 0) FROM ledger_spend WHERE organisation_id = %(organisation)s
        AND currency = %(currency)s AND month >= %(month)s
        AND (%(project)s::uuid IS NULL OR project_id = %(project)s)
        AND (%(token)s::uuid IS NULL OR token_id = %(token)s)),
    (SELECT coalesce(sum(CASE WHEN %(project)s::uuid IS NULL THEN hold.amount - hold.posted
            ELSE share.amount - share.posted END), 0)
        FROM ledger_hold AS hold
        LEFT JOIN ledger_holdshare AS share ON share.hold_id = hold.id AND share.project_id = %(project)s
        WHERE hold.organisation_id = %(organisation)s AND hold.currency = %(currency)s AND hold.state = 'pending'
        AND (%(token)s::uuid IS NULL OR hold.token_id = %(token)s))
"""


def spending(
    *, organisation_id: UUID, currency: str, now: datetime, project_id: UUID | None = None, token_id: UUID | None = None
) -> Spending:
    """Used this month and still on hold: by the organisation, for one of its projects, or through one API token.

    One statement, so one instant: a posting moves money from the hold to usage, and is seen whole or not at all. What a
    clock that was ahead posted to a month to come counts as well.
    """
    start, _ = month_of(now)
    values: dict[str, Any] = {
        "organisation": organisation_id, "currency": currency, "month": start.date(), "project": project_id,
        "token": token_id,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_SPENT, values)
        used, held = cursor.fetchone()
    return Spending(used=used, held=held, currency=currency)


def cap_of(
    organisation_id: UUID, *, currency: str, project_id: UUID | None = None, token_id: UUID | None = None
) -> Cap | None:
    """The cap in a currency of the organisation, or of one of its projects or API tokens, if it has set one."""
    scope: dict[str, Any] = {"project_id": project_id, "token_id": token_id}
    return Cap.objects.filter(organisation_id=organisation_id, currency=currency, **scope).first()


def caps_like(organisation_id: UUID, *, project_id: UUID | None = None, token_id: UUID | None = None) -> dict[str, Cap]:
    """The caps of the organisation, or of one of its projects or API tokens, by currency."""
    scope: dict[str, Any] = {"project_id": project_id, "token_id": token_id}
    rows = Cap.objects.filter(organisation_id=organisation_id, **scope).select_related("project", "token")
    return {cap.currency: cap for cap in rows.order_by("currency")}


def caps_of(organisation_id: UUID) -> list[Cap]:
    """Every cap of the organisation: its own first, then projects and API tokens by name; of each the currencies."""
    rows = Cap.objects.filter(organisation_id=organisation_id).select_related("project", "token")
    order = ["organisation", "project", "token"]
    return sorted(rows, key=lambda cap: (order.index(cap.scope), _scope_name(cap), cap.currency))


def _scope_name(cap: Cap) -> tuple[str, str]:
    return str(cap.project or cap.token or ""), str(cap.project_id or cap.token_id or "")


def balance_of(organisation_id: UUID, kind: AccountKind, currency: str) -> Decimal:
    """An account's balance: what its last entry says, however many there are; 0 without entries."""
    entries = Entry.objects.filter(
        account__organisation_id=organisation_id, account__kind=kind, account__currency=currency
    )
    last = entries.order_by("-number").values_list("balance", flat=True).first()
    return last or Decimal(0)


def hold_of(contract_id: UUID) -> Hold | None:
    """The hold of a contract."""
    return Hold.objects.filter(contract_id=contract_id).first()


def usage_of(contract_id: UUID) -> QuerySet[UsageRow]:
    """The usage of a contract in the order in which it happened."""
    return UsageRow.objects.filter(contract_id=contract_id)


def balances(organisation_id: UUID) -> dict[tuple[str, str], Decimal]:
    """(account kind, currency) -> what its last entry says; every account of the organisation."""
    last = Entry.objects.filter(account=OuterRef("pk")).order_by("-number").values("balance")[:1]
    rows = Account.objects.filter(organisation_id=organisation_id).annotate(last=Subquery(last))
    return {(row.kind, row.currency): row.last or Decimal(0) for row in rows}


def reconcile(organisation_id: UUID) -> Reconciliation:
    """Compare what was metered, what its stored steps say, and what was posted. No difference, or an alarm."""
    differences: list[str] = []
    metered: list[Decimal] = []
    rated: list[Decimal] = []
    for row in UsageRow.objects.filter(organisation_id=organisation_id).iterator(chunk_size=500):
        rating = Rating.from_json(row.rating)
        metered.append(row.amount)
        rated.append(rating.steps[-1].result)
        if rating.steps[-1].result != row.amount:
            differences.append(
                f"usage {row.idempotency_key}: its steps say {rating.steps[-1].result}, not {row.amount}"
            )
        if rating.executions != row.quantity or rating.counted_operations != row.operations:
            differences.append(f"usage {row.idempotency_key}: counted and rated quantities differ")
    entries = Entry.objects.filter(transaction__organisation_id=organisation_id)
    income = Q(transaction__kind="usage") & Q(account__kind__in=[AccountKind.REVENUE, AccountKind.BREAKAGE])
    # Credit notes take income back by postings of their own; what usage posted stays what it was.
    posted_by_usage = entries.filter(income, transaction__kind__startswith="usage")
    posted = (posted_by_usage.aggregate(sum=Sum("amount"))["sum"] or Decimal(0)).copy_negate()
    held_balance = entries.filter(account__kind=AccountKind.HELD).aggregate(sum=Sum("amount"))["sum"] or Decimal(0)
    open_holds = Hold.objects.filter(organisation_id=organisation_id, state=HoldState.PENDING)
    held_open = open_holds.aggregate(sum=Sum(F("amount") - F("posted")))["sum"] or Decimal(0)
    if exact_sum(metered) != posted:
        differences.append(f"metered minus posted is {subtract(exact_sum(metered), posted)}")
    if held_open != held_balance:
        differences.append(f"open holds minus the account held is {subtract(held_open, held_balance)}")
    differences += _kept_differences(organisation_id)
    chain = chain_verify(organisation_id)
    if not chain.intact:
        differences.append(chain.reason)
    return Reconciliation(
        len(metered), exact_sum(metered), exact_sum(rated), posted, held_open, held_balance, differences
    )


_SPEND_DIFFERS = """
SELECT coalesce(summed.month, kept.month)::text FROM (
    SELECT ledger_month(used.created_at, hold.created_at, hold.expires_at) AS month, used.currency,
        sum(used.amount) AS amount, count(*) AS rows
    FROM ledger_usagerow AS used LEFT JOIN ledger_hold AS hold USING (contract_id)
    WHERE used.organisation_id = %(organisation)s GROUP BY 1, 2
) AS summed FULL JOIN (
    SELECT month, currency, sum(amount) AS amount, sum(rows) AS rows
    FROM ledger_spend WHERE organisation_id = %(organisation)s GROUP BY 1, 2
) AS kept USING (month, currency)
WHERE (summed.amount, summed.rows) IS DISTINCT FROM (kept.amount, kept.rows) ORDER BY 1
"""
_HOLD_DIFFERS = """
SELECT hold.contract_id::text FROM ledger_hold AS hold LEFT JOIN ledger_usagerow AS used USING (contract_id)
WHERE hold.organisation_id = %(organisation)s
GROUP BY hold.contract_id, hold.posted HAVING hold.posted <> coalesce(sum(used.amount), 0) ORDER BY 1
"""


def _kept_differences(organisation_id: UUID) -> list[str]:
    """Where what triggers and holds keep is not the sum of the rows that it was kept from."""
    found = []
    for sql, sentence in (
        (_SPEND_DIFFERS, "the month of {} does not hold the sum of its usage"),
        (_HOLD_DIFFERS, "contract {}: its hold posted another sum than its usage rows say"),
    ):
        with connection.cursor() as cursor:
            cursor.execute(sql, {"organisation": organisation_id})
            found += [sentence.format(name) for (name,) in cursor.fetchall()]
    return found
