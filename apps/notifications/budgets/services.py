"""Creates and deletes budgets, and sends budget alerts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import UUID

from django.core.mail import send_mail
from django.db import transaction

from apps.accounts.models import ApiToken, Membership, Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.roles import MONEY
from apps.accounts.services import audit_record
from apps.figures import money_exact_format
from apps.invoicing.outbox import outbox_write
from apps.ledger.models import OutboxRow
from apps.ledger.selectors import Scope, month_of, spendings
from apps.notifications.models import AlertKind, Budget, BudgetAlert
from apps.pricing.rating import decimal_text
from apps.registry.models import Project

PERCENTS = (50, 75, 90, 100)
BUDGETS_MAX = 50
ELAPSED_MIN = timedelta(days=1)  # for the forecast: the usage of one hour says little about a month
ALERTS_ONLY = "Budgets send alerts only. To block new spending above a limit, set a spend cap."


@transaction.atomic
def budget_create(
    *,
    organisation: Organisation,
    amount: Decimal,
    currency: str,
    actor: User,
    now: datetime,
    project_id: UUID | None = None,
    token_id: UUID | None = None,
) -> Budget:
    """Create a monthly budget, starting with this month. If a threshold has already been reached, send an alert.

    Raises Problem if the amount is not above 0, the scope is unknown, the budget is a duplicate, or there are too many
    budgets.
    """
    if amount <= 0:
        raise Problem(422, "Amount too small", "Enter an amount above 0.", kind="budget-amount")
    if project_id and token_id:
        raise Problem(422, "More than one scope", "Choose a project or an API token, not both.", kind="budget-scope")
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    if Budget.objects.filter(organisation=organisation, deleted_at=None).count() >= BUDGETS_MAX:
        raise Problem(
            409,
            "Too many budgets",
            f"You have {BUDGETS_MAX} budgets, which is the maximum. Delete one first.",
            kind="too-many-budgets",
        )
    if project_id and not Project.objects.filter(organisation=organisation, pk=project_id).exists():
        raise Problem(422, "Unknown project", "Choose one of your projects.", kind="budget-scope")
    if token_id and not ApiToken.objects.filter(organisation=organisation, pk=token_id).exists():
        raise Problem(422, "Unknown API token", "Choose one of your API tokens.", kind="budget-scope")
    scope = {"project_id": project_id, "token_id": token_id, "currency": currency}
    if Budget.objects.filter(organisation=organisation, deleted_at=None, amount=amount, **scope).exists():
        raise Problem(
            409, "Budget exists", "There is already a budget with this amount and scope.", kind="budget-exists"
        )
    budget = Budget.objects.create(
        organisation=organisation,
        project_id=project_id,
        token_id=token_id,
        amount=amount,
        currency=currency,
        created_at=now,
    )
    _audit("budget.create", budget, actor, now)
    budget_check(budget, now=now)
    return budget


@transaction.atomic
def budget_delete(*, budget: Budget, actor: User, now: datetime) -> None:
    """Delete a budget and keep the past alerts. Safe to repeat."""
    if Budget.objects.filter(pk=budget.pk, deleted_at=None).update(deleted_at=now):
        _audit("budget.delete", budget, actor, now)


def _audit(action: str, budget: Budget, actor: User, now: datetime) -> None:
    audit_record(
        action=action,
        now=now,
        actor=actor,
        organisation=budget.organisation,
        subject=str(budget.pk),
        detail={"amount": decimal_text(budget.amount), "currency": budget.currency, "scope": budget.scope},
    )


def used_and_forecast(budget: Budget, *, now: datetime) -> tuple[Decimal, Fraction]:
    """Return the amount used this month and the linear projection to the end of the month."""
    return used_and_forecasts([budget], now=now)[0]


def used_and_forecasts(budgets: Sequence[Budget], *, now: datetime) -> list[tuple[Decimal, Fraction]]:
    """Return the used and projected amounts for each budget. All budgets must belong to one organisation."""
    if not budgets:
        return []
    start, end = month_of(now)
    scopes = [Scope(one.currency, one.project_id, one.token_id) for one in budgets]
    spent = spendings(organisation_id=budgets[0].organisation_id, scopes=scopes, now=now)
    elapsed = max(now - start, ELAPSED_MIN) // timedelta(microseconds=1)
    whole = (end - start) // timedelta(microseconds=1)
    return [(one.used, Fraction(one.used) * whole / elapsed) for one in spent]


def budget_check(budget: Budget, *, now: datetime) -> list[BudgetAlert]:
    """Store an alert for each threshold newly reached this month, and send the alert for the highest threshold.

    The forecast gives no alert for a threshold that actual usage has reached: its alert would say less than the other.

    The caller must be in a transaction.
    """
    used, forecast = used_and_forecast(budget, now=now)
    month = month_of(now)[0].date()
    known = set(BudgetAlert.objects.filter(budget=budget, month=month).values_list("kind", "percent"))
    actual = _reached(budget, Fraction(used))
    reached = {AlertKind.ACTUAL: actual, AlertKind.FORECAST: _reached(budget, forecast) - actual}
    fired = [
        BudgetAlert(budget=budget, month=month, kind=kind, percent=percent, used=used, at=now)
        for kind, percents in reached.items()
        for percent in sorted(percents)
        if (kind.value, percent) not in known
    ]
    for alert in fired:
        alert.save(force_insert=True)
    for kind in reached:
        highest = max((alert for alert in fired if alert.kind == kind), key=lambda one: one.percent, default=None)
        if highest is not None:
            _alert_send(highest, now)
    return fired


def _reached(budget: Budget, amount: Fraction) -> set[int]:
    return {percent for percent in PERCENTS if amount * 100 >= percent * Fraction(budget.amount)}


def _alert_send(alert: BudgetAlert, now: datetime) -> None:
    budget = alert.budget
    payload = {
        "alert": str(alert.pk),
        "budget": str(budget.pk),
        "scope": budget.scope,
        "kind": str(alert.kind),
        "percent": alert.percent,
        "amount": decimal_text(budget.amount),
        "used": decimal_text(alert.used),
        "currency": budget.currency,
        "month": alert.month.isoformat(),
        "stops_jobs": False,
    }
    outbox_write(organisation_id=budget.organisation_id, topic="budget.alert", payload=payload, now=now)


def usage_handle(row: OutboxRow, *, now: datetime) -> None:
    """Check all the organisation's budgets."""
    budgets = Budget.objects.filter(organisation_id=row.organisation_id, deleted_at=None)
    for budget in budgets.select_for_update(of=("self",)).select_related("project", "token"):
        budget_check(budget, now=now)


def alert_mail(row: OutboxRow, *, now: datetime) -> None:
    """Mail a budget alert to the organisation's owners and billing members."""
    alert = BudgetAlert.objects.select_related("budget__project", "budget__token").get(pk=row.payload["alert"])
    members = Membership.objects.filter(organisation_id=row.organisation_id, role__in=MONEY, user__is_active=True)
    send_mail(*alert_text(alert), None, sorted(members.values_list("user__email", flat=True)))


def alert_text(alert: BudgetAlert) -> tuple[str, str]:
    """Return the subject and the text of the e-mail about an alert."""
    budget = alert.budget
    amount, used = (money_exact_format(one, budget.currency) for one in (budget.amount, alert.used))
    what = "has been used" if alert.kind == AlertKind.ACTUAL else "will be used by the end of the month at this pace"
    subject = f"{alert.percent} % of a budget {what}"
    text = (
        f"{alert.percent} % of the budget of {amount} for {budget.scope} in {alert.month:%B %Y} {what}.\n"
        f"Used so far: {used}.\n{ALERTS_ONLY}\n"
    )
    return subject, text
