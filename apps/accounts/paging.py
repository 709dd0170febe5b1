"""Cursor pagination of long lists: `@paginate(Cursor, …)` for the API, `page_of` for pages.

A cursor holds the ordering values of a row. Import `paginate` from here, not from ninja.
"""

from __future__ import annotations

import inspect
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, TypeVar, cast

from django.core.exceptions import ValidationError
from django.db import DataError, transaction
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from ninja.pagination import CursorPagination
from ninja.pagination import paginate as ninja_paginate

from apps.accounts.problems import Problem

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=Model)
CURSOR = "cursor"  # the parameter of an address
LIST = "W"  # how a list in JSON begins in base64; ninja's own cursors never do
_UNKNOWN = (ValidationError, DataError, ValueError, OverflowError, TypeError, KeyError)


@dataclass(frozen=True)
class Place:
    """A position in a list, given by the ordering values of a row.

    The position selects the rows after that row or, if `back` is set, the rows before that row.
    """

    values: tuple[Any, ...]
    back: bool = False

    def text(self) -> str:
        """Return the cursor as text for URLs."""
        return urlsafe_b64encode(json.dumps([int(self.back), *self.values]).encode()).decode()

    @classmethod
    def read(cls, text: str, *, count: int) -> Place:
        """Parse a cursor with `count` ordering values. Raises ValueError if the text is not a valid cursor."""
        told = json.loads(urlsafe_b64decode(text.encode("ascii")))
        if not isinstance(told, list) or len(told) != count + 1 or told[0] not in {0, 1}:
            raise ValueError("a cursor of another list")
        if any(not isinstance(value, (str, int)) for value in told[1:]):
            raise ValueError("a cursor that was changed")
        return cls(tuple(told[1:]), back=bool(told[0]))

    @classmethod
    def of(cls, row: Any, ordering: Sequence[str], *, back: bool = False) -> Place:
        """Return the position just after a row or, if `back` is set, just before the row."""
        values = (attrgetter(name.lstrip("-").replace("__", "."))(row) for name in ordering)
        return cls(tuple(value if isinstance(value, int) else str(value) for value in values), back=back)


@dataclass(frozen=True)
class Part(Generic[M]):
    """The rows of one part of a list, and the positions of the neighbouring parts.

    A position is None if there is no neighbouring part.
    """

    rows: list[M]
    before: Place | None
    after: Place | None


def part_of(rows: QuerySet[M], *, ordering: Sequence[str], size: int, place: Place | None) -> Part[M]:
    """Return at most `size` rows of a list, starting at a position.

    Raises a database error if the position is not valid.
    """
    back = place is not None and place.back
    found, more = _rows_from(rows, ordering, size, place)
    if back and not more:  # the first page, and a full one
        return part_of(rows, ordering=ordering, size=size, place=None)
    if not found:
        return Part([], None if place is None else Place(place.values, back=True), None)
    first, last = Place.of(found[0], ordering, back=True), Place.of(found[-1], ordering)
    return Part(found, None if place is None else first, last if back or more else None)


def _rows_from(rows: QuerySet[M], ordering: Sequence[str], size: int, place: Place | None) -> tuple[list[M], bool]:
    back = place is not None and place.back
    chosen = rows.order_by(*(_turned(name) if back else name for name in ordering))
    if place is not None:
        chosen = chosen.filter(_beyond(ordering, place))
    found = list(chosen[: size + 1])
    kept = found[:size]
    return (kept[::-1] if back else kept), len(found) > size


def _turned(name: str) -> str:
    return name[1:] if name.startswith("-") else f"-{name}"


def _beyond(ordering: Sequence[str], place: Place) -> Q:
    # The first value is also compared separately, so that the database can seek with an index on it.
    (name, *others), (value, *rest) = ordering, place.values
    column, falls = name.lstrip("-"), name.startswith("-") != place.back
    further = Q(**{f"{column}__{'lt' if falls else 'gt'}": value})
    if not others:
        return further
    nearer = Q(**{f"{column}__{'lte' if falls else 'gte'}": value})
    return nearer & (further | _beyond(others, Place(tuple(rest), back=place.back)))


class Cursor(CursorPagination):
    """Ninja's pagination with our own cursors. An altered cursor causes a 422.

    `attach` receives the rows of a page before they are serialised, and can load related data for all rows at once.
    """

    def __init__(self, *, attach: Callable[[list[Any]], None] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.attach = attach

    def paginate_queryset(self, queryset: Any, pagination: Any, request: Any, **params: Any) -> Any:
        try:
            with transaction.atomic():
                answer = self._answer(queryset, pagination, request, **params)
        except _UNKNOWN:
            raise Problem(
                422,
                "Unknown cursor",
                "Use an unchanged cursor from an earlier response, or omit the cursor.",
                kind="cursor-unknown",
            ) from None
        if self.attach is not None:
            self.attach(answer[self.items_attribute])
        return answer

    def _answer(self, queryset: Any, pagination: Any, request: Any, **params: Any) -> dict[str, Any]:
        text, place = pagination.cursor, None
        if text and not text.startswith(LIST):
            return cast("dict[str, Any]", super().paginate_queryset(queryset, pagination, request, **params))
        if text:
            place = Place.read(text, count=len(self.ordering))
        size = self._get_page_size(pagination.page_size)
        part: Part[Any] = part_of(queryset, ordering=self.ordering, size=size, place=place)
        return {
            "next": self._address(request, part.after),
            "previous": self._address(request, part.before),
            self.items_attribute: part.rows,
        }

    def _address(self, request: HttpRequest, place: Place | None) -> str | None:
        if place is None:
            return None
        return request.build_absolute_uri(f"{request.path}?{_query(request, place)}")


def paginate(
    kind: type[Cursor], *, ordering: tuple[str, ...], attach: Callable[[list[Any]], None] | None = None
) -> Callable[[F], F]:
    """Return ninja's pagination decorator, adapted to postponed annotations."""

    def decorate(operation: F) -> F:
        # ninja wraps the operation and then looks its annotations up in its own module, where our types are unknown.
        operation.__signature__ = inspect.signature(operation, eval_str=True)  # type: ignore[attr-defined]
        return cast("F", ninja_paginate(kind, ordering=ordering, attach=attach)(operation))

    return decorate


@dataclass(frozen=True)
class Page(Generic[M]):
    """One page of a list. `previous` and `next` are URLs; None if there is no such page."""

    object_list: list[M]
    previous: str | None
    next: str | None
    first: str
    _rows: QuerySet[M] = field(repr=False)

    def __iter__(self) -> Iterator[M]:
        return iter(self.object_list)

    def __len__(self) -> int:
        return len(self.object_list)

    @property
    def has_other_pages(self) -> bool:
        return self.previous is not None or self.next is not None

    @cached_property
    def count(self) -> int:
        """Return the number of rows in the whole list."""
        return len(self.object_list) if not self.has_other_pages else self._rows.count()


def page_of(request: HttpRequest, rows: QuerySet[M], *, ordering: Sequence[str], size: int) -> Page[M]:
    """Return the page at the cursor in the URL; the first page if the cursor is missing or invalid."""
    place, text = None, request.GET.get(CURSOR, "")
    try:
        place = Place.read(text, count=len(ordering)) if text else None
        with transaction.atomic():
            part = part_of(rows, ordering=ordering, size=size, place=place)
    except _UNKNOWN:
        part = part_of(rows, ordering=ordering, size=size, place=None)
    previous, after = (None if one is None else f"?{_query(request, one)}" for one in (part.before, part.after))
    return Page(part.rows, previous, after, f"?{_query(request, None)}", rows)


def _query(request: HttpRequest, place: Place | None) -> str:
    query = request.GET.copy()
    query.pop(CURSOR, None)
    if place is not None:
        query[CURSOR] = place.text()
    return query.urlencode()
