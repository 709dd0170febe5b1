"""Read access to the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connection
from django.db.models import OuterRef, Q, QuerySet, Subquery, Sum

from apps.ledger.chain import chain_verify, day_roots
from apps.ledger.models import Account, AccountKind, Cap, Entry, Hold, HoldState, Spend, UsageRow
from apps.pricing.rating import exact_sum

__all__ = [
    "Scope",
    "Spending",
    "balance_of",
    "balances",
    "cap_of",
    "caps_like",
    "caps_of",
    "chain_verify",
    "day_roots",
    "executions_of",
    "hold_of",
    "month_of",
    "moved",
    "spending",
    "spending_of_all",
    "spendings",
    "usage_of",
]


@dataclass(frozen=True)
class Spending:
    """The amount used in the current month, and the amount set aside by open holds."""

    used: Decimal
    held: Decimal
    currency: str

    @property
    def committed(self) -> Decimal:
        return exact_sum([self.used, self.held])


def month_of(now: datetime) -> tuple[datetime, datetime]:
    """Return the start of the calendar month (UTC) that contains `now`, and the start of the next month."""
    start = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return start, (start + timedelta(days=32)).replace(day=1)


class Scope(NamedTuple):
    """The scope of a cap or a budget: a currency, and an organisation, a project or an API token."""

    currency: str
    project_id: UUID | None = None
    token_id: UUID | None = None


_SPENT = """
SELECT
    (SELECT coalesce(sum(amount), 0) FROM ledger_spend WHERE organisation_id = %(organisation)s
        AND currency = asked.currency AND month >= %(month)s
        AND (asked.project IS NULL OR project_id = asked.project)
        AND (asked.token IS NULL OR token_id = asked.token)),
    (SELECT coalesce(sum(CASE WHEN asked.project IS NULL THEN hold.amount - hold.posted
            ELSE share.amount - share.posted END), 0)
        FROM ledger_hold AS hold
        LEFT JOIN ledger_holdshare AS share ON share.hold_id = hold.id AND share.project_id = asked.project
        WHERE hold.organisation_id = %(organisation)s AND hold.currency = asked.currency AND hold.state = 'pending'
        AND (asked.token IS NULL OR hold.token_id = asked.token))
FROM unnest(%(currencies)s::text[], %(projects)s::uuid[], %(tokens)s::uuid[]) WITH ORDINALITY
    AS asked(currency, project, token, place) ORDER BY place
"""


def spendings(*, organisation_id: UUID, scopes: Sequence[Scope], now: datetime) -> list[Spending]:
    """Return two amounts for each scope: what was used this month, and what is still held."""
    values: dict[str, Any] = {
        "organisation": organisation_id,
        "month": month_of(now)[0].date(),
        "currencies": [one.currency for one in scopes],
        "projects": [one.project_id for one in scopes],
        "tokens": [one.token_id for one in scopes],
    }
    with connection.cursor() as cursor:
        cursor.execute(_SPENT, values)
        found = cursor.fetchall()
    return [
        Spending(used=used, held=held, currency=one.currency) for one, (used, held) in zip(scopes, found, strict=True)
    ]


def spending(
    *, organisation_id: UUID, currency: str, now: datetime, project_id: UUID | None = None, token_id: UUID | None = None
) -> Spending:
    """Return the spending of the organisation, a project or an API token in one currency."""
    (found,) = spendings(organisation_id=organisation_id, scopes=[Scope(currency, project_id, token_id)], now=now)
    return found


def spending_of_all(*, organisation_id: UUID, first: str, now: datetime) -> list[Spending]:
    """Return the organisation's spending in the `first` currency and in every other currency with usage or holds."""
    spent = Spend.objects.filter(organisation_id=organisation_id, month__gte=month_of(now)[0].date())
    held = Hold.objects.filter(organisation_id=organisation_id, state=HoldState.PENDING)
    others = {*spent.values_list("currency", flat=True).distinct(), *held.values_list("currency", flat=True).distinct()}
    codes = [first, *sorted(others - {first})]
    return spendings(organisation_id=organisation_id, scopes=[Scope(code) for code in codes], now=now)


def cap_of(
    organisation_id: UUID, *, currency: str, project_id: UUID | None = None, token_id: UUID | None = None
) -> Cap | None:
    """Return the cap of the organisation, a project or an API token in one currency; None if no cap is set."""
    scope: dict[str, Any] = {"project_id": project_id, "token_id": token_id}
    return Cap.objects.filter(organisation_id=organisation_id, currency=currency, **scope).first()


def caps_like(organisation_id: UUID, *, project_id: UUID | None = None, token_id: UUID | None = None) -> dict[str, Cap]:
    """Return the caps of the organisation, a project or an API token, by currency."""
    scope: dict[str, Any] = {"project_id": project_id, "token_id": token_id}
    rows = Cap.objects.filter(organisation_id=organisation_id, **scope).select_related("project", "token")
    return {cap.currency: cap for cap in rows.order_by("currency")}


def caps_of(organisation_id: UUID) -> list[Cap]:
    """Return all caps: first those of the organisation, then of projects, then of API tokens."""
    # Most organisations have none of projects or tokens: then a join would cost more than it finds.
    rows = Cap.objects.filter(organisation_id=organisation_id).prefetch_related("project", "token")
    order = ["organisation", "project", "token"]
    return sorted(rows, key=lambda cap: (order.index(cap.scope), _scope_name(cap), cap.currency))


def _scope_name(cap: Cap) -> tuple[str, str]:
    return str(cap.project or cap.token or ""), str(cap.project_id or cap.token_id or "")


def balance_of(organisation_id: UUID, kind: AccountKind, currency: str) -> Decimal:
    """Return an account's balance; 0 if the account has no entries."""
    entries = Entry.objects.filter(
        account__organisation_id=organisation_id, account__kind=kind, account__currency=currency
    )
    last = entries.order_by("-number").values_list("balance", flat=True).first()
    return last or Decimal(0)


def moved(organisation_id: UUID, keys: Iterable[str], kind: AccountKind) -> Decimal:
    """Return the sum of the entries that these postings made in accounts of one kind. All entries must be in one currency."""
    entries = Entry.objects.filter(
        transaction__organisation_id=organisation_id, transaction__idempotency_key__in=list(keys), account__kind=kind
    )
    return entries.aggregate(sum=Sum("amount"))["sum"] or Decimal(0)


def hold_of(contract_id: UUID) -> Hold | None:
    """Return a contract's hold; None if there is no hold."""
    return Hold.objects.filter(contract_id=contract_id).first()


def executions_sum() -> Sum:
    """Return an aggregate that sums the executions of usage rows. Rows that name no program are not counted."""
    return Sum("quantity", filter=~Q(program_digest="") & Q(billed_operations__gt=0), default=0)


def executions_of(row: UsageRow) -> int:
    """Return the executions of one usage row, as `executions_sum` counts them."""
    return row.quantity if row.program_digest and row.billed_operations > 0 else 0


def usage_of(contract_id: UUID) -> QuerySet[UsageRow]:
    """Return the usage rows of a contract in chronological order."""
    return UsageRow.objects.filter(contract_id=contract_id)


def balances(organisation_id: UUID) -> dict[tuple[str, str], Decimal]:
    """Return the balances of the organisation's accounts by (account kind, currency)."""
    last = Entry.objects.filter(account=OuterRef("pk")).order_by("-number").values("balance")[:1]
    rows = Account.objects.filter(organisation_id=organisation_id).annotate(last=Subquery(last))
    return {(row.kind, row.currency): row.last or Decimal(0) for row in rows}
