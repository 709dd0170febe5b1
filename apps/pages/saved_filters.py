"""Saved filters of lists.

To give a list saved filters, add a line to PAGES, and put `{% saved_filters "dispatch:job_list" %}` below the filter
bar.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlencode
from uuid import UUID

from django.db import transaction
from django.http import Http404
from django.urls import reverse

from apps.accounts.counters import name_clean
from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.pages.models import SavedFilter

# The lists that have filters, and the parameters of the address that are part of one.
PAGES: dict[str, tuple[str, ...]] = {
    "registry:model_list": ("q", "project"),
    "sales:quote_list": ("state", "form", "project"),
    "sales:contract_list": ("state", "form", "project"),
    "dispatch:job_list": ("state", "contract"),
}
PER_PAGE = 20  # saved filters of one list
_VALUE = 200  # characters of a parameter
QUERY_LENGTH = 500  # the column's


def query_of(page: str, data: Mapping[str, str]) -> str:
    """Return the filter in a URL's parameters as a query string in a fixed order; empty if no filter is set."""
    values = {name: str(data.get(name, "")).strip() for name in PAGES[page]}
    return urlencode({name: value for name, value in values.items() if _is_usable(value)})


def _is_usable(value: str) -> bool:
    return 0 < len(value) <= _VALUE and "\x00" not in value


def filter_url(page: str, query: str) -> str:
    """Return the URL of a list with this filter."""
    return f"{reverse(page)}?{query}" if query else reverse(page)


def filters_of(*, organisation: Organisation, user: User, page: str) -> list[SavedFilter]:
    """Return the person's saved filters of a list in one organisation, sorted by name."""
    rows = SavedFilter.objects.filter(organisation=organisation, user=user, page=page)
    return list(rows.order_by("name")[:PER_PAGE])


def filters_shown(*, organisation: Organisation, user: User, page: str, data: Mapping[str, str]) -> dict[str, Any]:
    """Return the context for templates/components/saved_filters.html."""
    rows, query = filters_of(organisation=organisation, user=user, page=page), query_of(page, data)
    saved = [{"pk": row.pk, "name": row.name, "query": row.query, "url": filter_url(page, row.query)} for row in rows]
    return {"saved": saved, "query": query, "page": page, "is_saved": any(row.query == query for row in rows)}


def filter_save(
    *, organisation: Organisation, user: User, page: str, name: str, query: str, now: datetime
) -> SavedFilter:
    """Save a filter under a name. A filter with the same name is replaced.

    Raises Problem (422) if the list has no saved filters, no filter is set, the name is invalid, or there are too many
    filters.
    """
    if page not in PAGES:
        raise Problem(422, "No such list", "This list has no filters to save.", kind="filter")
    name = name_clean(name)
    if not name:
        raise Problem(422, "Name missing", "Give the filter a name.", kind="name")
    found = query_of(page, {key: values[-1] for key, values in parse_qs(query).items()})
    if not found:
        raise Problem(422, "No filter set", "Choose a filter first, then save it.", kind="filter")
    if len(found) > QUERY_LENGTH:
        raise Problem(422, "Filter too long", "Shorten the filter, then save it.", kind="filter")
    with transaction.atomic():
        Organisation.objects.select_for_update(no_key=True).get(
            pk=organisation.pk
        )  # so that two tabs count one after the other
        mine = SavedFilter.objects.filter(organisation=organisation, user=user, page=page)
        if not mine.filter(name=name).exists() and mine.count() >= PER_PAGE:
            detail = f"You have {PER_PAGE} saved filters for this list. Delete one first."
            raise Problem(409, "Too many filters", detail, kind="filter")
        saved, _ = mine.update_or_create(
            name=name,
            defaults={"query": found, "created_at": now},
            create_defaults={
                "organisation": organisation,
                "user": user,
                "page": page,
                "query": found,
                "created_at": now,
            },
        )
    return saved


def filter_delete(*, organisation: Organisation, user: User, pk: UUID) -> SavedFilter:
    """Delete and return one of the person's own filters. Raises Http404 if the filter belongs to another person."""
    found = SavedFilter.objects.filter(organisation=organisation, user=user, pk=pk).first()
    if found is None:
        raise Http404
    SavedFilter.objects.filter(pk=found.pk).delete()
    return found
