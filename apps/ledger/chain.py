"""Verifies the hash chain and stores daily roots."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import F, Max, Prefetch, Q, QuerySet
from django.db.models.functions import TruncDate

from apps.ledger.altered import UNREADABLE
from apps.ledger.identity import identity
from apps.ledger.instant import one_instant
from apps.ledger.models import Chain, ChainRoot, Entry, Transaction, UsageRow
from apps.ledger.posting import entries_text, hash_again
from apps.ledger.usage import leaf_of, leaves_of, payload_of, rows_digest, stamp
from apps.pricing.rating import Rating, digest_of, exact_sum

AT_ONCE = 20  # transactions; one may have a thousand usage rows
FORMAT = "takt-chain/2"
NOTHING = "0" * 64  # the hash before the first transaction


@dataclass(frozen=True)
class ChainReport:
    """The result of verifying a chain.

    `broken_at` is the first invalid sequence number. `row` is the table and id of the changed row.
    """

    transactions: int
    head: str
    broken_at: int | None
    reason: str
    row: str = ""

    @property
    def intact(self) -> bool:
        return self.broken_at is None


@dataclass(frozen=True)
class DayRoot:
    """The head of the chain at the end of a day. `is_stored` is False if the root has not been stored."""

    day: datetime
    sequence: int
    hash: str
    is_stored: bool = False


class _Broken(Exception):
    def __init__(self, reason: str, row: object = "") -> None:
        super().__init__(reason)
        self.row = f"{row._meta.db_table} {row.pk}" if isinstance(row, Entry | UsageRow | Transaction) else str(row)


@dataclass
class _Walk:
    organisation_id: UUID
    count: int = 0
    head: str = NOTHING
    rows: int = 0
    accounts: dict[UUID, tuple[int, Decimal]] = field(default_factory=dict)
    digests: dict[UUID, str] = field(default_factory=dict)

    def finding(self, posted: Transaction) -> _Broken | None:
        try:
            self.step(posted)
        except _Broken as broken:
            return broken
        return None

    def digest(self, row: UsageRow) -> str:
        if row.pk not in self.digests:
            self.digests[row.pk] = _digest_again(row)
        return self.digests[row.pk]

    def step(self, posted: Transaction) -> None:
        self.count += 1
        self.digests.clear()
        if posted.sequence != self.count:
            raise _Broken(f"transaction {self.count} is missing")
        for entry in posted.entries.all():
            self._entry(entry)
        try:
            if posted.kind == "usage":
                self._usages(posted)
        except UNREADABLE as error:
            raise _Broken(
                f"transaction {self.count} cannot be read: its detail is none that was posted", posted
            ) from error
        if posted.previous_hash != self.head or posted.hash != hash_or_nothing(posted, self.head, self.count):
            raise _Broken(f"transaction {self.count} does not have its hash", posted)
        self.head = posted.hash

    def _entry(self, entry: Entry) -> None:
        number, balance = self.accounts.get(entry.account_id, (0, Decimal(0)))
        after = number + 1, exact_sum([balance, entry.amount])
        if (entry.number, entry.balance) != after:
            raise _Broken(f"entry {entry.pk} of transaction {self.count} does not fit its account's balance", entry)
        self.accounts[entry.account_id] = after

    def _usages(self, posted: Transaction) -> None:
        rows = list(posted.usages.all())
        self.rows += len(rows)
        for row in rows:
            wrong = _difference(row, posted, self.digest(row))
            if wrong:
                raise _Broken(f"usage row {row.pk} ({row.idempotency_key}): {wrong}", row)
        if not _commits_to(posted, rows):
            said, culprit = _stranger(posted, rows)
            raise _Broken(f"transaction {self.count} does not commit to its usage rows: {said}", culprit)


def hash_or_nothing(posted: Transaction, previous: str, sequence: int) -> str:
    """Return the hash that a transaction must have. Return an empty string if the detail cannot be hashed."""
    try:
        return hash_again(posted, previous, sequence)
    except UNREADABLE:
        return ""


def _digest_again(row: UsageRow) -> str:
    try:
        return digest_of(payload_of(row.__dict__))
    except UNREADABLE:
        return ""


def _difference(row: UsageRow, posted: Transaction, digest: str) -> str:
    if digest != row.payload_digest:
        return "it does not have its digest"
    try:
        return _unlike(row, posted, Rating.from_json(row.rating))
    except UNREADABLE:
        return "its rating is none that was ever made"


def _unlike(row: UsageRow, posted: Transaction, rating: Rating) -> str:
    told = (
        row.billed_operations,
        row.klass,
        row.amount,
        row.currency,
        row.unused,
        row.organisation_id,
        row.created_at,
    )
    follows = (
        Decimal(rating.billed_operations),
        rating.terms.klass,
        rating.amount,
        rating.currency,
        rating.unused,
        posted.organisation_id,
        posted.at,
    )
    if told != follows:
        return "its columns are not those of its rating and its transaction"
    known_by_key = "rows" in posted.detail  # older rows have ids by chance
    if known_by_key and row.pk != identity(row.organisation_id, "usage", row.idempotency_key):
        return "its id is not that of its key"
    return ""


def _commits_to(posted: Transaction, rows: list[UsageRow]) -> bool:
    if "rows" in posted.detail:
        digest = rows_digest((row.idempotency_key, row.payload_digest) for row in rows)
        return bool(posted.detail["rows"] == digest and posted.detail["count"] == len(rows))
    named = [(f"usage:{row.idempotency_key}", row.payload_digest) for row in rows]
    return named == [(posted.idempotency_key, posted.detail.get("usage"))]


def _stranger(posted: Transaction, rows: list[UsageRow]) -> tuple[str, object]:
    if "leaves" in posted.detail:
        leaves = leaves_of(posted.detail["leaves"])
        there = {leaf_of(row.idempotency_key, row.payload_digest): row for row in rows}
        known = set(leaves)
        strange = [row for leaf, row in there.items() if leaf not in known]
        gone = [number for number, leaf in enumerate(leaves, 1) if leaf not in there]
    else:
        leaves, strange, gone = [posted.idempotency_key], rows, [] if rows else [1]
    if strange:
        row = strange[0]
        return f"usage row {row.pk} ({row.idempotency_key}) was rewritten together with its digest, or added", row
    if gone:
        return (
            f"row {gone[0]} of {len(leaves)} in the order of keys, known as {leaves[gone[0] - 1]}, is gone",
            posted,
        )
    return "their number or their common digest was rewritten", posted


def _transactions(organisation_id: UUID, **only: Any) -> Iterator[Transaction]:
    entries = Entry.objects.select_related("account").order_by("id")
    rows = Transaction.objects.filter(organisation_id=organisation_id, **only).order_by("sequence")
    usages = Prefetch("usages", queryset=UsageRow.objects.order_by("idempotency_key"))
    return rows.prefetch_related(Prefetch("entries", queryset=entries), usages).iterator(chunk_size=AT_ONCE)


def chain_verify(organisation_id: UUID) -> ChainReport:
    """Recompute and compare every balance, digest and hash of an organisation, in one database snapshot.

    The report names the first row that does not match.
    """
    with one_instant():
        return _verified(organisation_id)


def _verified(organisation_id: UUID) -> ChainReport:
    head = Chain.objects.filter(organisation_id=organisation_id).first()
    roots = {root.sequence: root for root in ChainRoot.objects.filter(organisation_id=organisation_id)}
    walk = _Walk(organisation_id)
    try:
        for posted in _transactions(organisation_id):
            walk.step(posted)
            root = roots.pop(walk.count, None)
            if root is not None and root.hash != walk.head:
                raise _Broken(f"transaction {walk.count} is not the one that the root of {root.day} names", posted)
        _end(walk, head, roots)
    except _Broken as broken:
        return ChainReport(walk.count, walk.head, walk.count, str(broken), broken.row)
    return ChainReport(walk.count, walk.head, None, "every hash follows from the one before it")


def _end(walk: _Walk, head: Chain | None, roots: dict[int, ChainRoot]) -> None:
    reached = walk.count, walk.head
    if ((head.sequence, head.hash) if head else (0, NOTHING)) != reached:
        walk.count += 1
        raise _Broken("the chain's head names a transaction that is not there", "ledger_chain")
    rows = UsageRow.objects.filter(organisation_id=walk.organisation_id)
    if rows.count() != walk.rows:
        stray = rows.exclude(transaction__organisation=F("organisation"), transaction__kind="usage").first()
        name = f"usage row {stray.pk} ({stray.idempotency_key})" if stray else "a usage row"
        raise _Broken(f"{name} belongs to no transaction of this organisation", stray or "ledger_usagerow")
    for sequence, root in sorted(roots.items()):
        walk.count += 1
        raise _Broken(f"the root of {root.day} names transaction {sequence}, which is not there", "ledger_chainroot")


def _day_ends(transactions: QuerySet[Transaction]) -> dict[date, Transaction]:
    days = (
        transactions.order_by().annotate(day=TruncDate("at", tzinfo=UTC)).values("day").annotate(last=Max("sequence"))
    )
    ends = {row["last"]: row["day"] for row in days}
    return {ends[one.sequence]: one for one in transactions.filter(sequence__in=ends)}


def day_roots(organisation_id: UUID, *, now: datetime, days: int = 14) -> list[DayRoot]:
    """Return the roots of the most recent days with transactions, newest first. Missing roots of past days are stored."""
    roots_store(now=now, organisation_id=organisation_id)
    since = _today(now) - timedelta(days=days - 1)
    ends = _day_ends(Transaction.objects.filter(organisation_id=organisation_id, at__gte=since))
    stored = {root.day: root for root in ChainRoot.objects.filter(organisation_id=organisation_id, day__gte=since)}
    roots = [
        DayRoot(_midnight(day), kept.sequence, kept.hash, is_stored=True)
        if (kept := stored.get(day))
        else DayRoot(_midnight(day), last.sequence, last.hash)
        for day, last in ends.items()
    ]
    return sorted(roots, key=lambda root: root.day, reverse=True)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


def _today(now: datetime) -> datetime:
    return _midnight(now.astimezone(UTC).date())


def roots_store(*, now: datetime, organisation_id: UUID | None = None) -> int:
    """Store the missing roots of past days. Return the number of roots stored."""
    stored = 0
    chains = Chain.objects.filter(sequence__gt=0).order_by("organisation_id")
    for chain in chains if organisation_id is None else chains.filter(organisation_id=organisation_id):
        over = Transaction.objects.filter(organisation_id=chain.organisation_id, at__lt=_today(now))
        last = ChainRoot.objects.filter(organisation_id=chain.organisation_id).first()
        ends = _day_ends(over if last is None else over.filter(at__gte=_midnight(last.day) + timedelta(days=1)))
        made = [
            ChainRoot(
                organisation_id=chain.organisation_id, day=day, sequence=one.sequence, hash=one.hash, stored_at=now
            )
            for day, one in sorted(ends.items())
        ]
        stored += len(ChainRoot.objects.bulk_create(made, ignore_conflicts=True))
    return stored


def chain_json(organisation_id: UUID, *, now: datetime) -> Iterator[str]:
    """Yield an organisation's chain as a JSON document, in chunks.

    Every usage row has a digest computed from its current columns. `altered` names the row of the first mismatch.
    """
    roots_store(now=now, organisation_id=organisation_id)
    roots = list(ChainRoot.objects.filter(organisation_id=organisation_id).order_by("day"))
    head = Chain.objects.filter(organisation_id=organisation_id).first() or Chain(organisation_id=organisation_id)
    told = _text({"sequence": head.sequence, "hash": head.hash})
    yield f'{{"format":"{FORMAT}","organisation":"{organisation_id}","head":{told},"transactions":['
    walk, broken, mark = _Walk(organisation_id), False, ""
    today: DayRoot | None = None
    for posted in _transactions(organisation_id, sequence__lte=head.sequence):
        found = None if broken else walk.finding(posted)
        yield mark + _text(_told(posted, walk, found))
        walk.digests.clear()
        broken, mark = broken or found is not None, ","
        if posted.at >= _today(now):
            today = DayRoot(_midnight(posted.at.astimezone(UTC).date()), posted.sequence, posted.hash)
    end = {"roots": [_root(root.day, root) for root in roots], "today": today and _root(today.day.date(), today)}
    behind = Q(sequence__gt=F("organisation__chain__sequence")) | Q(organisation__chain=None)
    strays = Transaction.objects.filter(behind, organisation_id=organisation_id).order_by("sequence")
    stray = None if broken else strays.first()
    if stray is not None:
        end |= _altered(_Broken(f"transaction {stray.sequence} stands behind the chain's head", stray))
    yield f"],{_text(end)[1:]}\n"


def _text(document: dict[str, Any]) -> str:
    # Floats are accepted so that an altered row is named and not refused.
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _root(day: date, root: ChainRoot | DayRoot) -> dict[str, Any]:
    return {"day": f"{day}", "sequence": root.sequence, "hash": root.hash}


def _altered(broken: _Broken | None) -> dict[str, Any]:
    return {} if broken is None else {"altered": {"row": broken.row, "reason": str(broken)}}


def _told(posted: Transaction, walk: _Walk, broken: _Broken | None) -> dict[str, Any]:
    told = {
        "sequence": posted.sequence,
        "kind": posted.kind,
        "key": posted.idempotency_key,
        "subject": posted.subject,
        "detail": posted.detail,
        "at": stamp(posted.at),
        "entries": entries_text(posted),
        "previous": posted.previous_hash,
        "hash": posted.hash,
        **_altered(broken),
    }
    usages = [[row.idempotency_key, walk.digest(row)] for row in posted.usages.all()]
    return {**told, "usages": usages} if usages else told
