"""Readable numbers such as Q-0007 for quotes and J-0012 for jobs.

Each organisation numbers each kind of object from 1.
"""

from __future__ import annotations

import re
import unicodedata
from typing import ClassVar, NamedTuple
from uuid import UUID

from django.db import connection, models

from apps.accounts.models import NumberKind
from apps.accounts.problems import Problem

DIGITS = 4  # at least; more where the number needs them
NAME_LENGTH = 80
PREFIXES = {NumberKind.QUOTE: "Q", NumberKind.CONTRACT: "C", NumberKind.JOB: "J"}
_WRITTEN = re.compile(r"([A-Za-z])-?([0-9]{1,10})")
_LARGEST = 2**31 - 1  # the column's
# Control characters, lone surrogates, line and paragraph separators, and marks that turn the direction of text.
_REFUSED_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_VISIBLE = frozenset("LNPS")  # letters, numbers, punctuation and symbols
_REFUSED_BIDI = frozenset({"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"})
_NEXT = """
INSERT INTO accounts_counter (organisation_id, kind, last) VALUES (%s, %s, 1)
ON CONFLICT (organisation_id, kind) DO UPDATE SET last = accounts_counter.last + 1
RETURNING last
"""


class Reference(NamedTuple):
    """A parsed number: the kind of object and an integer."""

    kind: NumberKind
    number: int


def number_next(*, organisation_id: UUID, kind: NumberKind) -> int:
    """Return the organisation's next number of this kind.

    Call this as late as possible in the transaction that stores the object, because the counter stays locked until that
    transaction ends. Lock the organisation's row, if needed, before the call.
    """
    with connection.cursor() as cursor:
        cursor.execute(_NEXT, [organisation_id, kind.value])
        (number,) = cursor.fetchone()
        return int(number)


def number_text(kind: NumberKind, number: int) -> str:
    """Format a number, for example `Q-0007`."""
    return f"{PREFIXES[kind]}-{number:0{DIGITS}d}"


def number_parse(text: str) -> Reference | None:
    """Parse an object's number as people write it, such as `Q-0007` or `q7`; None if the text is not valid."""
    found = _WRITTEN.fullmatch(text.strip())
    if found is None:
        return None
    kinds = {prefix: kind for kind, prefix in PREFIXES.items()}
    kind, number = kinds.get(found[1].upper()), int(found[2])
    return Reference(kind, number) if kind is not None and 1 <= number <= _LARGEST else None


def name_clean(text: str) -> str:
    """Return a name without leading and trailing spaces. Raises Problem(422) if the name is too long or not usable."""
    name = text.strip()
    if len(name) > NAME_LENGTH:
        raise Problem(
            422,
            "Name too long",
            f"A name can have at most {NAME_LENGTH} characters; this one has {len(name):,}.",
            kind="name",
        )
    if name and not any(unicodedata.category(one)[0] in _VISIBLE for one in name):
        raise Problem(422, "Name not usable", "A name must have at least one visible character.", kind="name")
    if any(
        unicodedata.category(one) in _REFUSED_CATEGORIES or unicodedata.bidirectional(one) in _REFUSED_BIDI
        for one in name
    ):
        raise Problem(
            422,
            "Name not usable",
            "A name must be one line of text without control characters. Remove line breaks, tabs and similar characters.",
            kind="name",
        )
    return name


class Numbered(models.Model):
    """The base class of objects with a number and an optional name.

    Subclasses set `number_kind`, and add a unique constraint on `organisation` and `number`.
    """

    number = models.PositiveIntegerField()
    name = models.CharField(max_length=NAME_LENGTH, blank=True, default="")

    number_kind: ClassVar[NumberKind]

    class Meta:
        abstract = True

    @property
    def reference(self) -> str:
        return number_text(self.number_kind, self.number)

    @property
    def title(self) -> str:
        """Return the formatted number, followed by the object's name if there is a name."""
        return f"{self.reference} {self.name}".strip()
