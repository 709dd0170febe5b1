"""The budgets page."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.models import ApiToken, Organisation
from apps.accounts.problems import Problem
from apps.accounts.roles import MONEY
from apps.invoicing.forms import AmountField, MoneyForm
from apps.ledger.selectors import month_of
from apps.notifications.budgets import services
from apps.notifications.budgets.selectors import budget_rows
from apps.notifications.models import Budget, BudgetAlert
from apps.pricing.amounts import currencies_offered
from apps.registry.models import Project


class BudgetForm(MoneyForm):
    """The form for a new budget: a monthly amount and its scope."""

    amount = AmountField(label="Amount")
    scope = forms.ChoiceField(label="Applies to")

    def __init__(self, *values: object, organisation: Organisation, **options: object) -> None:
        super().__init__(*values, **options)  # type: ignore[arg-type]
        projects = Project.objects.filter(organisation=organisation).order_by("name")
        tokens = ApiToken.objects.filter(organisation=organisation, revoked_at=None).order_by("name")
        self.fields["scope"].choices = [  # type: ignore[attr-defined]
            ("organisation", "the whole organisation"),
            *((f"project:{one.pk}", f"project {one.name}") for one in projects),
            *((f"token:{one.pk}", f"API token {one.name}") for one in tokens),
        ]

    def scope_ids(self) -> dict[str, UUID]:
        """Return `project_id` or `token_id` as keyword arguments; empty for the whole organisation."""
        kind, _, value = str(self.cleaned_data["scope"]).partition(":")
        return {f"{kind}_id": UUID(value)} if value else {}


@require_http_methods(["GET", "POST"])
def budget_list(request: HttpRequest) -> HttpResponse:
    """Show the budgets with their usage and forecasts. A valid POST creates a budget."""
    roles = {"roles": MONEY} if request.method == "POST" else {}
    organisation, now = organisation_get(request, **roles), timezone.now()
    form = BudgetForm(request.POST or None, organisation=organisation, currencies=currencies_offered(now=now))
    if request.method == "POST" and form.is_valid():
        try:
            services.budget_create(
                organisation=organisation,
                amount=form.cleaned_data["amount"],
                currency=form.chosen.code,
                actor=principal_get(request).user,
                now=now,
                **form.scope_ids(),
            )
        except Problem as problem:
            form.add_error("amount", problem.detail)
        else:
            messages.success(request, "Budget created.")
            return redirect("notifications:budget_list")
    alerts = BudgetAlert.objects.filter(budget__organisation=organisation, month=month_of(now)[0].date())
    context = {
        "rows": budget_rows(organisation, now=now),
        "alerts": alerts.select_related("budget__project", "budget__token"),
        "form": form,
    }
    return render(request, "notifications/budgets/list.html", context, status=422 if form.errors else 200)


@require_POST
def budget_delete(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Delete a budget."""
    budget = org_object_get(request, Budget, roles=MONEY, pk=pk)
    services.budget_delete(budget=budget, actor=principal_get(request).user, now=timezone.now())
    messages.success(request, "Budget deleted. No more alerts will be sent for this budget.")
    return redirect("notifications:budget_list")
