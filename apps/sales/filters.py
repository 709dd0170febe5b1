"""Filters for the lists of quotes and contracts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from apps.accounts.problems import Problem
from apps.accounts.unknown_filters import UnknownFilter, unknown_filter
from apps.sales.models import Contract, ContractState, FormName, Quote, QuoteState

QUOTE_STATES = (("open", "Open"), ("accepted", "Accepted"), ("expired", "Expired"), ("withdrawn", "Withdrawn"))


@dataclass(frozen=True)
class Filters:
    """The chosen filters. An empty value means no filter."""

    state: str = ""
    form: str = ""
    project: UUID | None = None

    @property
    def any(self) -> bool:
        return bool(self.state or self.form or self.project)


def filters_read(data: Mapping[str, Any], *, states: Collection[str]) -> Filters:
    """Read the filters from a query string. Invalid values are ignored."""
    state, form = str(data.get("state") or ""), str(data.get("form") or "")
    try:
        project = UUID(str(data["project"])) if data.get("project") else None
    except ValueError:
        project = None
    return Filters(state if state in states else "", form if form in FormName.values else "", project)


def filters_unknown(
    data: Mapping[str, Any], found: Filters, *, states: Sequence[tuple[str, str]], rows: str
) -> list[UnknownFilter]:
    """Return what to say about each filter in a query string that `filters_read` ignored."""
    every: tuple[tuple[str, object, Sequence[str]], ...] = (
        ("state", found.state, [label for _, label in states]),
        ("form", found.form, FormName.labels),
        ("project", found.project, []),
    )
    return [
        unknown_filter(name, str(data[name]), rows=rows, labels=labels)
        for name, value, labels in every
        if data.get(name) and not value
    ]


def filters_strict(*, states: Collection[str], state: str, form: str, project: str) -> Filters:
    """Read the filters of an API request. Raises Problem(422) for an invalid value."""
    asked = {"state": state, "form": form, "project": project}
    found = filters_read(asked, states=states)
    for name, known in (("state", found.state), ("form", found.form), ("project", found.project)):
        if asked[name] and not known:
            choices = {"state": ", ".join(states), "form": ", ".join(FormName.values), "project": "the id of a project"}
            raise Problem(422, "No such filter", f"`{name}` is one of: {choices[name]}.", kind="filter")
    return found


def quotes_filter(rows: QuerySet[Quote], filters: Filters, *, now: datetime) -> QuerySet[Quote]:
    """Return the quotes that match the filters. An open quote whose price lock has ended counts as expired."""
    if filters.state == "expired":
        rows = rows.filter(state=QuoteState.OPEN, valid_until__lte=now)
    elif filters.state == QuoteState.OPEN:
        rows = rows.filter(state=QuoteState.OPEN, valid_until__gt=now)
    elif filters.state:
        rows = rows.filter(state=filters.state)
    if filters.form:
        rows = rows.filter(form=filters.form)
    if filters.project is not None:
        rows = rows.filter(document__lines__contains=[{"program": {"project_id": str(filters.project)}}])
    return rows


def contracts_filter(rows: QuerySet[Contract], filters: Filters) -> QuerySet[Contract]:
    """Return the contracts that match the filters."""
    if filters.state in ContractState.values:
        rows = rows.filter(state=filters.state)
    if filters.form:
        rows = rows.filter(form=filters.form)
    if filters.project is not None:
        rows = rows.filter(lines__program__model_version__model__project=filters.project).distinct()
    return rows
