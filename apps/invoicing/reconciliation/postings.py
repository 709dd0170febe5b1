"""Loads the postings with which records are compared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

from apps.invoicing.models import FactKind
from apps.ledger.altered import UNREADABLE
from apps.ledger.models import AccountKind, Entry, Transaction
from apps.pricing.rating import decimal_text, digest_of, exact_sum

KINDS = ("invoice", "payment", "credit-note", "credit", "balance", "write-off", *FactKind.values)
NOTHING = Decimal(0)


@dataclass(frozen=True)
class Posting:
    """A ledger transaction with its entries by account and currency."""

    key: str
    kind: str
    subject: str
    detail: Any
    entries: dict[tuple[str, str], Decimal] = field(default_factory=dict)

    @property
    def digest(self) -> object:
        return self._detail_value("digest")

    @property
    def reference(self) -> object:
        return self._detail_value("reference")

    def _detail_value(self, name: str) -> object:
        return self.detail.get(name) if isinstance(self.detail, dict) else None

    def amount(self, account: AccountKind, currency: str) -> Decimal:
        """Return the amount posted to an account; 0 if the posting has no entry for the account."""
        return self.entries.get((account.value, currency), NOTHING)


@dataclass
class Postings:
    """An organisation's postings by key. `known` holds the keys of postings whose record was found."""

    by_key: dict[str, Posting]
    known: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, organisation_id: UUID) -> Postings:
        rows = Transaction.objects.filter(organisation_id=organisation_id, kind__in=KINDS).order_by("sequence")
        found = {
            pk: Posting(key, kind, subject, detail)
            for pk, key, kind, subject, detail in rows.values_list("pk", "idempotency_key", "kind", "subject", "detail")
        }
        entries = Entry.objects.filter(transaction__in=rows.order_by()).order_by("id")
        for pk, account, currency, amount in entries.values_list(
            "transaction_id", "account__kind", "account__currency", "amount"
        ):
            moved = found[pk].entries
            moved[account, currency] = exact_sum([moved.get((account, currency), NOTHING), amount])
        return cls({posting.key: posting for posting in found.values()})

    def take(self, key: str) -> Posting | None:
        """Return the posting with a key and mark the key as known. Return None if there is no posting."""
        self.known.add(key)
        return self.by_key.get(key)

    def starting(self, prefix: str) -> Iterator[Posting]:
        """Yield every posting whose key starts with a prefix, and mark these keys as known."""
        for key, posting in self.by_key.items():
            if key.startswith(prefix):
                self.known.add(key)
                yield posting

    def orphans(self) -> list[str]:
        """Return a sentence for each posting whose record is missing."""
        lost = [posting for key, posting in self.by_key.items() if key not in self.known]
        return [f"{one.subject}: what posted {one.key} is not there any more" for one in lost]


def moved_differences(
    name: str, posting: Posting | None, expected: Mapping[AccountKind, Decimal], currency: str, *, whole: bool = False
) -> list[str]:
    """Return a sentence for each account whose posted amount differs from the expected amount.

    With `whole`, also report posted accounts that are not in `expected`.
    """
    found = posting.entries if posting else {}
    wanted = {(account.value, currency): amount for account, amount in expected.items()}
    places = wanted.keys() | (found.keys() if whole else set())
    return [
        f"{name}: {decimal_text(found.get(place, NOTHING))} {place[1]} was posted to {place[0]}, not "
        f"{decimal_text(wanted.get(place, NOTHING))}"
        for place in sorted(places)
        if found.get(place, NOTHING) != wanted.get(place, NOTHING)
    ]


def document_differences(name: str, document: object, digest: str, posting: Posting | None) -> list[str]:
    """Return a sentence for each difference between the document, the digest and the posting."""
    found = []
    if not digest_follows(document, digest):
        found.append(f"{name}: its document is not the one that was issued")
    if posting is not None and posting.digest != digest:
        found.append(f"{name}: its digest is not the one that was posted")
    return found


def digest_follows(document: object, digest: str) -> bool:
    """Return whether a stored document has this digest. Return False if the document cannot be hashed."""
    try:
        return digest_of(document) == digest
    except UNREADABLE:  # for instance a float, which our documents never contain
        return False


def figures_differ(name: str, row: object, document: Mapping[str, Any], figures: Mapping[str, str]) -> list[str]:
    """Return a sentence for each figure of a row that differs from the document.

    `figures` maps attributes of the row to keys of the document.
    """
    found = []
    for attribute, key in figures.items():
        stated, stored = str(document.get(key)), decimal_text(getattr(row, attribute))
        if stated != stored:
            found.append(f"{name}: its {attribute.replace('_', ' ')} is {stored}, and its document says {stated}")
    return found
