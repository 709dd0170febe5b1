"""Interprets the text of a search as a name, a number, or the start of an id or a digest."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from django.db.models import Q

from apps.accounts.counters import PREFIXES, number_parse
from apps.accounts.models import NumberKind

LENGTH = 200  # characters that are read; names are shorter
WORDS = 8  # words that are looked for
PREFIX = 4  # hexadecimal digits from which on a text may be an id or a digest
CONTAINED = 3  # characters from which on a name may hold the text anywhere: an index of trigrams needs three
_HEX = re.compile(r"[0-9a-f]+")
_AFTER_HEX = "g"  # sorts after every hexadecimal digit
_ID_DIGITS, _DIGEST_DIGITS = 32, 64
_CONTROL = ("Cc", "Cs")


@dataclass(frozen=True)
class Query:
    """The text of a search, with its possible meanings."""

    text: str

    @classmethod
    def read(cls, raw: str) -> Query:
        """Parse a search text, which is first reduced to one line of at most LENGTH characters."""
        kept = "".join(" " if unicodedata.category(one) in _CONTROL else one for one in raw[: LENGTH * 5])
        return cls(" ".join(kept.split())[:LENGTH].strip())

    def __bool__(self) -> bool:
        return bool(self.text)

    @cached_property
    def id_range(self) -> tuple[UUID, UUID] | None:
        digits = self.text.lower().replace("-", "")
        if not PREFIX <= len(digits) <= _ID_DIGITS or not _HEX.fullmatch(digits):
            return None
        return UUID(digits.ljust(_ID_DIGITS, "0")), UUID(digits.ljust(_ID_DIGITS, "f"))

    @cached_property
    def digest(self) -> str:
        digits = self.text.lower().removeprefix("sha256:")
        return digits if PREFIX <= len(digits) <= _DIGEST_DIGITS and _HEX.fullmatch(digits) else ""

    @cached_property
    def numbers(self) -> dict[NumberKind, int]:
        # `Q-0007` and `q7` mean one kind; `7` and `0007` mean every kind.
        reference = number_parse(self.text)
        if reference is not None:
            return {reference.kind: reference.number}
        written = (number_parse(f"{PREFIXES[kind]}{self.text}") for kind in NumberKind)
        return {one.kind: one.number for one in written if one is not None}

    def numbered(self, kind: NumberKind) -> Q:
        """Return a condition for rows of this kind that have the number in the text."""
        return Q(number=self.numbers[kind]) if kind in self.numbers else Q(pk__in=[])

    def named(self, *columns: str) -> Q:
        """Return a condition for rows in which every word of the text occurs in one of the columns.

        A short word must be at the start of the column.
        """
        found = Q(pk__in=[]) if not self.text else Q()
        for word in self.text.split()[:WORDS]:
            lookup = "icontains" if len(word) >= CONTAINED else "istartswith"
            one = Q()
            for column in columns:
                one |= Q(**{f"{column}__{lookup}": word})
            found &= one
        return found

    def identified(self, column: str = "pk") -> Q:
        """Return a condition for rows whose id begins with the text."""
        return Q(**{f"{column}__range": self.id_range}) if self.id_range else Q(pk__in=[])

    def digested(self, column: str) -> Q:
        """Return a condition for rows whose digest begins with the text."""
        if not self.digest:
            return Q(pk__in=[])
        return Q(**{f"{column}__gte": self.digest, f"{column}__lt": self.digest + _AFTER_HEX})
