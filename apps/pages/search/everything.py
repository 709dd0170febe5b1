"""Searches every kind of object of an organisation, the pages and the documents.

Every kind of object is found with one limited query that uses an index and filters by organisation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Model as Row
from django.db.models import QuerySet
from django.urls import reverse

from apps.accounts.access import Principal
from apps.accounts.models import NumberKind, Organisation
from apps.accounts.roles import Role
from apps.compilation.models import Program
from apps.dispatch.models import Job
from apps.invoicing.models import Invoice
from apps.pages import documents, navigation
from apps.pages.search.words import Query
from apps.planner.models import Plan, Task
from apps.registry.models import DataSet, ModelVersion, Project
from apps.sales.models import Contract, Quote

PER_KIND = 5  # hits of one kind


@dataclass(frozen=True)
class Hit:
    """A search result: the URL, title and state, and a note to distinguish similar results."""

    url: str
    title: str
    note: str = ""
    state: str = ""


@dataclass(frozen=True)
class Group:
    """The search results of one kind."""

    title: str
    icon: str
    hits: list[Hit] = field(default_factory=list)


@dataclass(frozen=True)
class Kind:
    """A kind of object that can be found. `rows` queries the matching rows, and `hit` turns a row into a result."""

    title: str
    icon: str
    rows: Callable[[Query], QuerySet[Any]]
    hit: Callable[[Any], Hit]


def everything_search(query: Query, *, principal: Principal | None, limit: int = PER_KIND) -> list[Group]:
    """Return the non-empty groups of results: pages, objects of the current organisation, documents.

    Platform administrators also find organisations. A visitor (`principal` is None) finds no objects.
    """
    if not query:
        return []
    groups = [_pages(query, principal, limit)]
    if principal is not None and principal.current in principal.memberships:
        groups += [_objects(kind, query, principal.current, limit) for kind in KINDS]
    if principal is not None and principal.is_platform_admin:
        groups.append(_customers(query, limit))
    groups.append(_documents(query, limit))
    return [group for group in groups if group.hits]


def _objects(kind: Kind, query: Query, organisation_id: UUID, limit: int) -> Group:
    rows: Iterable[Row] = kind.rows(query).filter(organisation_id=organisation_id)[:limit]
    return Group(kind.title, kind.icon, [kind.hit(row) for row in rows])


def _versions(query: Query) -> QuerySet[ModelVersion]:
    wanted = query.named("model__name", "filename") | query.identified() | query.digested("sha256")
    rows = ModelVersion.objects.filter(wanted, deleted_at__isnull=True).select_related("model__project")
    return rows.only("number", "model__name", "model__project__name").order_by("-created_at")


def _programs(query: Query) -> QuerySet[Program]:
    wanted = query.named("model_version__model__name", "target", "precision")
    rows = Program.objects.filter(wanted | query.identified() | query.digested("digest"))
    columns = ("target", "precision", "dims", "digest", "model_version__number", "model_version__model__name")
    return rows.select_related("model_version__model").only(*columns).order_by("-created_at")


def _quotes(query: Query) -> QuerySet[Quote]:
    wanted = query.numbered(NumberKind.QUOTE) | query.named("name") | query.identified() | query.digested("digest")
    return Quote.objects.filter(wanted).only("number", "name", "created_at", "state").order_by("-created_at")


def _contracts(query: Query) -> QuerySet[Contract]:
    named = query.numbered(NumberKind.CONTRACT) | query.named("name")
    rows = Contract.objects.filter(named | query.identified() | query.digested("terms_digest"))
    return rows.only("number", "name", "accepted_at", "state").order_by("-accepted_at")


def _jobs(query: Query) -> QuerySet[Job]:
    rows = Job.objects.filter(query.numbered(NumberKind.JOB) | query.named("name") | query.identified())
    return rows.only("number", "name", "submitted_at", "state", "items").order_by("-submitted_at")


def _invoices(query: Query) -> QuerySet[Invoice]:
    rows = Invoice.objects.filter(query.named("number") | query.identified() | query.digested("digest"))
    return rows.only("number", "state", "issued_at").order_by("-issued_at")


def _tasks(query: Query) -> QuerySet[Task]:
    rows = Task.objects.filter(query.named("name") | query.identified(), deleted_at__isnull=True)
    return rows.only("name", "created_at").order_by("-created_at")


def _plans(query: Query) -> QuerySet[Plan]:
    return (
        Plan.objects.filter(query.named("title") | query.identified())
        .only("title", "created_at")
        .order_by("-created_at")
    )


def _projects(query: Query) -> QuerySet[Project]:
    return Project.objects.filter(query.named("name") | query.identified()).order_by("name")


def _data_sets(query: Query) -> QuerySet[DataSet]:
    wanted = query.named("name") | query.identified() | query.digested("digest")
    return DataSet.objects.filter(wanted, deleted_at__isnull=True).only("name", "items").order_by("-created_at")


def _version_hit(row: ModelVersion) -> Hit:
    return Hit(reverse("compilation:version_detail", args=[row.pk]), str(row), row.model.project.name)


def _program_hit(row: Program) -> Hit:
    sizes = "".join(f", {name} {size}" for name, size in row.dims.items())
    title = f"{row.model_version} on {row.target}, {row.precision}{sizes}"
    return Hit(reverse("program", args=[row.pk]), title, row.digest[:12])


def _quote_hit(row: Quote) -> Hit:
    return Hit(reverse("sales:quote_detail", args=[row.pk]), row.title, _day(row.created_at), row.state)


def _contract_hit(row: Contract) -> Hit:
    return Hit(reverse("sales:contract_detail", args=[row.pk]), row.title, _day(row.accepted_at), row.state)


def _job_hit(row: Job) -> Hit:
    note = f"{row.items:,} items, {_day(row.submitted_at)}"
    return Hit(reverse("dispatch:job_detail", args=[row.pk]), row.title, note, row.state)


def _invoice_hit(row: Invoice) -> Hit:
    url = reverse("invoicing:invoice_detail", args=[row.pk])
    return Hit(url, f"Invoice {row.number}", _day(row.issued_at), row.state)


def _task_hit(row: Task) -> Hit:
    return Hit(reverse("planner:task_detail", args=[row.pk]), row.name, _day(row.created_at))


def _plan_hit(row: Plan) -> Hit:
    return Hit(reverse("planner:plan_detail", args=[row.pk]), row.title, _day(row.created_at))


def _project_hit(row: Project) -> Hit:
    return Hit(
        f"{reverse('registry:model_list')}?{urlencode({'project': row.name})}", row.name, "models of the project"
    )


def _data_set_hit(row: DataSet) -> Hit:
    return Hit(reverse("planner:task_list"), row.name, f"{row.items:,} items")


def _day(at: Any) -> str:
    return f"{at:%Y-%m-%d}"


KINDS = (
    Kind("Models", "box", _versions, _version_hit),
    Kind("Programs", "cpu", _programs, _program_hit),
    Kind("Quotes", "calculator", _quotes, _quote_hit),
    Kind("Contracts", "file-invoice", _contracts, _contract_hit),
    Kind("Jobs", "player-play", _jobs, _job_hit),
    Kind("Invoices", "receipt", _invoices, _invoice_hit),
    Kind("Tasks", "adjustments", _tasks, _task_hit),
    Kind("Plans", "route", _plans, _plan_hit),
    Kind("Projects", "stack-2", _projects, _project_hit),
    Kind("Data sets", "database", _data_sets, _data_set_hit),
)


def _customers(query: Query, limit: int) -> Group:
    rows = Organisation.objects.filter(query.named("name") | query.identified()).only("name").order_by("name")[:limit]
    return Group("Customers", "users", [Hit(reverse("portal:customer", args=[row.pk]), row.name) for row in rows])


def _pages(query: Query, principal: Principal | None, limit: int) -> Group:
    words = query.text.lower().split()
    role = principal.memberships.get(principal.current) if principal and principal.current else None
    links = navigation.pages_of(
        is_person=principal is not None,
        is_member=role is not None,
        is_owner=role == Role.OWNER,
        is_platform_admin=principal is not None and principal.is_platform_admin,
    )
    found = [link for link in links if all(word in link.label.lower() for word in words)]
    found.sort(key=lambda link: not link.label.lower().startswith(query.text.lower()))
    return Group("Pages", "layout-dashboard", [Hit(link.url, link.label) for link in found[:limit]])


def _documents(query: Query, limit: int) -> Group:
    hits = documents.search(query.text, limit=limit)
    rows = [Hit(one.url, one.heading or one.title, one.title if one.heading != one.title else "") for one in hits]
    return Group("Documents", "book", rows)
