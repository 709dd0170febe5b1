"""JSON API for budgets."""

from __future__ import annotations

from datetime import date, datetime
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from ninja import Router, Schema

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.paging import Cursor, paginate
from apps.accounts.roles import MONEY, Scope
from apps.invoicing.fields import Exact
from apps.notifications.budgets import services
from apps.notifications.models import Budget, BudgetAlert
from apps.pricing.amounts import Code, Entered, amount_entered, currency_chosen

router = Router(tags=["budgets"])
BILLING = requires(Scope.BILLING, roles=MONEY)


class BudgetIn(RequestBody):
    """A budget to create. The default currency is the currency of the price book in force."""

    amount: Entered
    currency: Code | None = None
    project_id: UUID | None = None
    token_id: UUID | None = None


class BudgetOut(Schema):
    id: UUID
    amount: Exact
    currency: str
    scope: str
    project_id: UUID | None
    token_id: UUID | None
    created_at: datetime


class BudgetAlertOut(Schema):
    id: UUID
    budget_id: UUID
    month: date
    kind: str
    percent: int
    used: Exact
    at: datetime


@router.get("/budgets", response=list[BudgetOut], operation_id="budget_list", summary="Budgets")
@paginate(Cursor, ordering=("created_at", "id"))
def budget_list(request: HttpRequest) -> QuerySet[Budget]:
    """Lists the organisation's budgets. A budget applies to every calendar month (UTC)."""
    budgets = Budget.objects.filter(organisation=organisation_get(request), deleted_at=None)
    return budgets.select_related("project", "token")


@router.post(
    "/budgets", auth=BILLING, response={201: BudgetOut}, operation_id="budget_create", summary="Create a budget"
)
@idempotent
def budget_create(request: HttpRequest, payload: BudgetIn) -> tuple[int, Budget]:
    """Creates a budget, which sends alerts when actual or forecast usage reaches 50, 75, 90 and 100 %."""
    organisation, now = organisation_get(request, roles=MONEY), timezone.now()
    chosen = currency_chosen(payload.currency, now=now)
    return 201, services.budget_create(
        organisation=organisation,
        amount=amount_entered(payload.amount, currency=chosen),
        currency=chosen.code,
        actor=principal_get(request).user,
        now=now,
        project_id=payload.project_id,
        token_id=payload.token_id,
    )


@router.delete(
    "/budgets/{uuid:pk}", auth=BILLING, response={204: None}, operation_id="budget_delete", summary="Delete a budget"
)
def budget_delete(request: HttpRequest, pk: UUID) -> tuple[int, None]:
    """Deletes a budget. Past alerts are kept."""
    budget = org_object_get(request, Budget.objects.filter(deleted_at=None), roles=MONEY, pk=pk)
    services.budget_delete(budget=budget, actor=principal_get(request).user, now=timezone.now())
    return 204, None


@router.get("/budget-alerts", response=list[BudgetAlertOut], operation_id="budget_alerts", summary="Budget alerts")
@paginate(Cursor, ordering=("-at", "id"))
def budget_alerts(request: HttpRequest) -> QuerySet[BudgetAlert]:
    """Lists all alerts of the organisation's budgets, newest first."""
    return BudgetAlert.objects.filter(budget__organisation=organisation_get(request))
