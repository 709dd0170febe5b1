"""The API of contracts."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema
from pydantic import Field

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.paging import Cursor, paginate
from apps.accounts.roles import BUYING, ENGINEERING, Scope
from apps.pricing.rating import decimal_text
from apps.sales import selectors, services
from apps.sales.ending_cost import Ending, ending_of
from apps.sales.filters import contracts_filter, filters_strict
from apps.sales.models import Contract, ContractState
from apps.sales.revising import contract_plan_again, difference_of

router = Router(tags=["quotes and contracts"])
BUY = requires(Scope.BUY, roles=BUYING)


def _usage(row: Contract) -> selectors.ContractUsage:
    # The usage is read only once for each response.
    known = getattr(row, "_usage_of_answer", None)
    if not isinstance(known, selectors.ContractUsage):
        _usages_attach([row])
        known = row._usage_of_answer  # type: ignore[attr-defined]
    return known


def _usages_attach(rows: list[Contract]) -> None:
    usages = selectors.contract_usages(rows)
    for row in rows:
        row._usage_of_answer = usages[row.id]  # type: ignore[attr-defined]


class ContractLineOut(Schema):
    number: int
    program: UUID | None
    program_digest: str
    model: str
    unit: Literal["executions", "operations"]
    executions: int
    taken: int
    used: int
    quoted: str
    actual: str


class LateOut(Schema):
    """The late cancellation term of a contract."""

    notice_minutes: int
    share: str = Field(description="The share of the price that is charged for unused time released late.")
    amount: str = Field(description="The charge if the whole contract is released late.")


class NameIn(RequestBody):
    name: str = Field(max_length=800, description="At most 80 characters. An empty string removes the name.")


class ContractOut(Schema):
    id: UUID
    number: str = Field(description="Unique in the organisation, for example C-0003.")
    name: str = Field(description="Your own name for the contract; empty if the contract has none.")
    quote: UUID
    plan_id: UUID | None
    state: str
    klass: str
    form: str
    amends: UUID | None
    pool: str
    net: str
    actual: str
    currency: str
    starts_at: datetime
    ends_at: datetime
    accepted_at: datetime
    terms_digest: str
    late_cancellation: LateOut | None
    late_charged: str = Field(description="The charge for late releases, included in `actual`.")
    lines: list[ContractLineOut]

    @staticmethod
    def resolve_number(row: Contract) -> str:
        return row.reference

    @staticmethod
    def resolve_quote(row: Contract) -> UUID:
        return row.quote_id

    @staticmethod
    def resolve_amends(row: Contract) -> UUID | None:
        return row.quote.amends_id

    @staticmethod
    def resolve_pool(row: Contract) -> str:
        return row.pool.slug

    @staticmethod
    def resolve_net(row: Contract) -> str:
        return decimal_text(row.net)

    @staticmethod
    def resolve_actual(row: Contract) -> str:
        return decimal_text(_usage(row).actual)

    @staticmethod
    def resolve_late_cancellation(row: Contract) -> dict[str, Any] | None:
        late: dict[str, Any] | None = row.terms.get("late")
        return late

    @staticmethod
    def resolve_late_charged(row: Contract) -> str:
        return decimal_text(_usage(row).late)

    @staticmethod
    def resolve_lines(row: Contract) -> list[dict[str, Any]]:
        return [
            {
                "number": line.number,
                "program": line.snapshot.program_id or None,
                "program_digest": line.program_digest,
                "model": line.snapshot.model,
                "unit": line.unit,
                "executions": line.executions,
                "taken": line.taken,
                "used": line.used,
                "quoted": decimal_text(line.quoted),
                "actual": decimal_text(line.actual),
            }
            for line in _usage(row).lines
        ]


class ContractEndIn(RequestBody):
    at_most: str | None = Field(
        default=None,
        pattern=r"^[0-9]{1,30}(\.[0-9]{1,40})?$",
        description="The highest acceptable cost, usually the preview's `charge`. If ending costs more, the response is 409.",
    )


class EndingLineOut(Schema):
    model: str
    unit: Literal["executions", "operations", "contract"]
    unused: int
    late: int
    late_charge: str
    charge: str


class EndingOut(Schema):
    """The additional charge if the contract ends now."""

    charge: str
    late_charge: str
    currency: str
    free_until: datetime | None = Field(
        description="If nothing more is used, ending the contract before this time incurs no late charge."
    )
    rises_at: datetime | None = Field(description="The next time at which the charge may rise.")
    lines: list[EndingLineOut]

    @staticmethod
    def of(contract: Contract, ending: Ending) -> dict[str, Any]:
        """Build the response for one contract."""
        return {
            "charge": decimal_text(ending.charge),
            "late_charge": decimal_text(ending.late_charge),
            "currency": contract.currency,
            "free_until": ending.free_until,
            "rises_at": ending.rises_at,
            "lines": [
                {
                    "model": line.model,
                    "unit": line.unit,
                    "unused": line.unused,
                    "late": line.late,
                    "late_charge": decimal_text(line.late_charge),
                    "charge": decimal_text(line.charge),
                }
                for line in ending.rest.lines
            ],
        }


def contract_of(request: HttpRequest, pk: UUID, **access: Any) -> Contract:
    """Return a contract of the request's organisation. Raises Problem(404)."""
    return org_object_get(request, Contract.objects.select_related("pool", "quote"), pk=pk, **access)


@router.get("/contracts", response=list[ContractOut], operation_id="contract_list", summary="Contracts")
@paginate(Cursor, ordering=("-accepted_at", "-id"), attach=_usages_attach)
def contract_list(request: HttpRequest, state: str = "", form: str = "", project: str = "") -> QuerySet[Contract]:
    """Returns the newest contracts first."""
    rows = selectors.contracts_of(organisation_get(request))
    filters = filters_strict(states=ContractState.values, state=state, form=form, project=project)
    return contracts_filter(rows, filters)


@router.get("/contracts/{uuid:pk}", response=ContractOut, operation_id="contract_get", summary="One contract")
def contract_get(request: HttpRequest, pk: UUID) -> Contract:
    """Also returns the usage, with quoted and actual amounts."""
    return contract_of(request, pk)


@router.patch(
    "/contracts/{uuid:pk}",
    auth=requires(Scope.BUILD, roles=ENGINEERING),
    response=ContractOut,
    operation_id="contract_rename",
    summary="Name a contract",
)
def contract_rename(request: HttpRequest, pk: UUID, payload: NameIn) -> Contract:
    """Sets the name; the agreed terms do not change."""
    contract = contract_of(request, pk, roles=ENGINEERING)
    services.contract_rename(
        contract_id=contract.id,
        organisation=contract.organisation,
        name=payload.name,
        actor=principal_get(request).user,
        now=timezone.now(),
    )
    return contract_of(request, pk)


class RevisionRow(Schema):
    name: str
    before: str
    after: str


class RevisionOut(Schema):
    """A new plan for the unused part of a contract, and its differences from the contract."""

    plan: UUID
    items: int
    is_feasible: bool
    rows: list[RevisionRow]


@router.post(
    "/contracts/{uuid:pk}/plan",
    auth=requires(Scope.BUILD, roles=ENGINEERING),
    response={201: RevisionOut},
    operation_id="contract_plan",
    summary="Plan the unused part of a contract again",
)
@idempotent
def contract_plan(request: HttpRequest, pk: UUID) -> tuple[int, RevisionOut]:
    """Creates a new plan for the unused part of the contract.

    The contract does not change. To apply the plan, accept a quote with this `plan` and with the contract as `amends`.
    """
    contract = contract_of(request, pk, roles=ENGINEERING)
    plan = contract_plan_again(contract=contract, actor=principal_get(request).user, now=timezone.now())
    rows = [RevisionRow(**one.to_json()) for one in difference_of(contract, plan)]
    items = int(plan.requirements["items"])
    return 201, RevisionOut(plan=plan.pk, items=items, is_feasible=plan.chosen is not None, rows=rows)


@router.post(
    "/contracts/{uuid:pk}/end",
    auth=BUY,
    response=ContractOut,
    operation_id="contract_end",
    summary="End a contract early",
)
@idempotent
def contract_end(request: HttpRequest, pk: UUID, payload: ContractEndIn | None = None) -> Contract:
    """Releases the capacity and the remainder of the hold. A late release may be charged; request the preview first."""
    contract = contract_of(request, pk, roles=BUYING)
    return services.contract_end(
        contract_id=contract.id,
        organisation=contract.organisation,
        actor=principal_get(request).user,
        now=timezone.now(),
        at_most=Decimal(payload.at_most) if payload and payload.at_most is not None else None,
    )


@router.get(
    "/contracts/{uuid:pk}/end",
    response=EndingOut,
    operation_id="contract_end_preview",
    summary="Cost of ending a contract now",
)
def contract_end_preview(request: HttpRequest, pk: UUID) -> dict[str, Any]:
    """Returns the charge if the contract ends now; nothing changes.

    When you end the contract, send this `charge` as `at_most`. If the charge has risen, the request is refused.
    """
    contract = contract_of(request, pk)
    return EndingOut.of(contract, ending_of(contract, now=timezone.now()))
