"""The quota tree of an organisation, which limits reservations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.models import ApiToken, Organisation
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.figures import duration_format
from apps.ledger.models import Hold
from apps.registry.models import Project
from apps.sales.models import Contract, QuotaNode
from apps.sales.quota_tree import Excess, Node, Use, excess, set_fault, uses
from apps.sales.request_lines import QuoteRequestLine, request_lines_of
from apps.sales.snapshots import project_uuid
from apps.timetable.models import Window, WindowState

Key = tuple[UUID | None, UUID | None]  # project, API token; (None, None) is the organisation


def nodes_of(organisation_id: Any) -> list[QuotaNode]:
    """Return the nodes of the organisation in tree order."""
    # Most organisations have no quota; a join would cost more than a prefetch.
    rows = QuotaNode.objects.filter(organisation=organisation_id).prefetch_related("project", "token")
    return sorted(
        rows,
        key=lambda row: (row.project_id is not None, _name(row.project), row.token_id is not None, _name(row.token)),
    )


def _name(row: Project | ApiToken | None) -> str:
    return f"{row.name} {row.pk}" if row else ""


def tree_of(rows: Sequence[QuotaNode]) -> list[Node]:
    """Convert rows to nodes for the quota rules."""
    return [Node(_key(row), _parent(row), row.nominal_us, row.lending_us, row.borrowing_us) for row in rows]


def _key(row: QuotaNode) -> Key:
    return (row.project_id, row.token_id)


def _parent(row: QuotaNode) -> Key | None:
    if row.token_id is not None:
        return (row.project_id, None)
    return (None, None) if row.project_id is not None else None


def reserved_by_node(
    organisation_id: Any, known: set[Key], *, now: datetime, besides: UUID | None = None
) -> dict[Key, int]:
    """Return the microseconds of future reserved time at each node.

    `besides`: a reservation to leave out.
    """
    windows = Window.objects.filter(
        reservation__organisation_id=organisation_id, state=WindowState.ACTIVE, period__endswith__gt=now
    )
    if besides is not None:
        windows = windows.exclude(reservation=besides)
    ahead: defaultdict[UUID, int] = defaultdict(int)
    for contract_id, period in windows.values_list("reservation__contract_id", "period"):
        ahead[contract_id] += _micros(max(period.lower, now), period.upper)
    contracts = Contract.objects.filter(pk__in=ahead).only("pk", "terms")
    tokens = dict(Hold.objects.filter(contract_id__in=ahead).values_list("contract_id", "token_id"))
    found: defaultdict[Key, int] = defaultdict(int)
    for contract in contracts:
        parts = divided(ahead[contract.pk], request_lines_of(contract.terms), tokens.get(contract.pk), known)
        for key, amount in parts.items():
            found[key] += amount
    return dict(found)


def _micros(start: datetime, end: datetime) -> int:
    length = end - start
    return (length.days * 86_400 + length.seconds) * 10**6 + length.microseconds


def divided(
    total: int, request_lines: Sequence[QuoteRequestLine], token_id: UUID | None, known: set[Key]
) -> dict[Key, int]:
    """Divide reserved microseconds among nodes, in proportion to the work of each project."""
    weights: defaultdict[Key, Fraction] = defaultdict(Fraction)
    for request_line in request_lines:
        weights[_place(project_uuid(request_line.snapshot), token_id, known)] += (
            request_line.executions * request_line.snapshot.seconds
        )
    whole = sum(weights.values())
    parts = {key: int(total * weight / whole) if whole else 0 for key, weight in weights.items()}
    first = next(iter(parts))
    parts[first] += total - sum(parts.values())
    return parts


def _place(project: UUID | None, token_id: UUID | None, known: set[Key]) -> Key:
    for key in ((project, token_id), (project, None)):
        if project is not None and key in known:
            return key
    return (None, None)


def quota_check(
    *,
    organisation_id: Any,
    reservation_id: UUID,
    request_lines: Sequence[QuoteRequestLine],
    token_id: UUID | None,
    now: datetime,
) -> None:
    """Raise Problem if the new reservation exceeds the quota tree.

    The caller must be in the transaction that makes the reservation, and must hold the organisation's lock.
    """
    rows = nodes_of(organisation_id)
    if not rows:
        return
    known = {_key(row) for row in rows}
    mine = Window.objects.filter(reservation=reservation_id, state=WindowState.ACTIVE, period__endswith__gt=now)
    total = sum(_micros(max(one.lower, now), one.upper) for one in mine.values_list("period", flat=True))
    reserved = reserved_by_node(organisation_id, known, now=now, besides=reservation_id)
    found = excess(tree_of(rows), reserved, divided(total, request_lines, token_id, known))
    if found is not None:
        raise _refusal(found, rows, reserved)


def _refusal(found: Excess, rows: Sequence[QuotaNode], reserved: Mapping[Key, int]) -> Problem:
    row = next(one for one in rows if _key(one) == found.node.key)
    remedy = f"Release {_duration(found.over)} of its reserved time{_other_remedy(found, row, rows, reserved)}"
    return Problem(
        409,
        "Quota reached",
        f"{node_name(row)} may have {_duration(row.nominal_us)} reserved in advance{_borrows(row)}. "
        f"{_duration(found.use.demand)} are used or set aside for the quotas below it, and this request needs "
        f"{_duration(found.asked)}. {remedy}.",
        kind="quota-reached",
        errors=[
            {
                "node": node_name(row),
                "nominal": _seconds(row.nominal_us),
                "used": _seconds(found.use.used),
                "asked": _seconds(found.asked),
                "over": _seconds(found.over),
            }
        ],
    )


def _other_remedy(found: Excess, row: QuotaNode, rows: Sequence[QuotaNode], reserved: Mapping[Key, int]) -> str:
    use_of = uses(tree_of(rows), reserved)
    idle = [one for one in rows if one is not row and use_of[_key(one)].free]
    return _raise_borrowing(found, idle) if found.is_borrowing else _raise_lending(idle)


def _raise_borrowing(found: Excess, idle: Sequence[QuotaNode]) -> str:
    siblings = [one for one in idle if found.node.parent is not None and _parent(one) == found.node.parent]
    if not siblings:
        return ""
    has = "has" if len(siblings) == 1 else "have"
    return f", or let an owner raise its borrowing limit: {_names(siblings)} {has} time to lend"


def _raise_lending(idle: Sequence[QuotaNode]) -> str:
    limited = [one for one in idle if one.lending_us is not None]
    return f", or let {_names(limited)} lend more unused time" if limited else ""


def _names(rows: Sequence[QuotaNode]) -> str:
    return " and ".join(node_name(one) for one in rows)


def _borrows(row: QuotaNode) -> str:
    return "" if not row.borrowing_us or row.project_id is None else f" and borrow {_duration(row.borrowing_us)}"


def node_name(row: QuotaNode) -> str:
    """Return the name of a node."""
    if row.token is not None:
        return f"API token {row.token.name}"
    return f"Project {row.project.name}" if row.project is not None else "The organisation"


def _duration(micros: int) -> str:
    return duration_format(Fraction(micros, 10**6))


def _seconds(micros: int) -> str:
    return str(Fraction(micros, 10**6))


@transaction.atomic
def node_set(
    *,
    organisation: Organisation,
    project_id: UUID | None = None,
    token_id: UUID | None = None,
    nominal_us: int | None,
    lending_us: int | None = None,
    borrowing_us: int | None = None,
    actor: Any,
    now: datetime,
) -> QuotaNode | None:
    """Set the quota of the organisation, of a project, or of an API token in a project.

    `nominal_us=None` removes the quota. Raises Problem if the project or the token is unknown, or if the tree would be
    invalid.
    """
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    _check_scope(organisation, project_id, token_id)
    scope: dict[str, Any] = {"organisation": organisation, "project_id": project_id, "token_id": token_id}
    row = None
    if nominal_us is None:
        QuotaNode.objects.filter(**scope).delete()
    else:
        limits = {"nominal_us": nominal_us, "lending_us": lending_us, "borrowing_us": borrowing_us, "set_at": now}
        row, _ = QuotaNode.objects.update_or_create(**scope, defaults=limits)
    fault = set_fault(tree_of(nodes_of(organisation.pk)))
    if fault:
        raise Problem(422, "The quotas do not add up", fault, kind="quota-tree")
    audit_record(
        action="quota.set",
        subject=str(token_id or project_id or organisation.name),
        actor=actor,
        organisation=organisation,
        now=now,
        detail={"nominal_us": nominal_us, "lending_us": lending_us, "borrowing_us": borrowing_us},
    )
    return row


def _check_scope(organisation: Organisation, project_id: UUID | None, token_id: UUID | None) -> None:
    wrong = (
        (project_id is not None and not Project.objects.filter(pk=project_id, organisation=organisation).exists())
        or (token_id is not None and not ApiToken.objects.filter(pk=token_id, organisation=organisation).exists())
        or (token_id is not None and project_id is None)
    )
    if wrong:
        raise Problem(404, "Not found", "There is no such project or API token here.", kind="not-found")


def tree_with_use(organisation: Organisation, *, now: datetime) -> list[tuple[QuotaNode, Use]]:
    """Return every node with its use, in tree order."""
    rows = nodes_of(organisation.pk)
    found = uses(tree_of(rows), reserved_by_node(organisation.pk, {_key(row) for row in rows}, now=now))
    return [(row, found[_key(row)]) for row in rows]
