"""What changes budgets, and what makes their alerts: each posting of usage, through the outbox."""

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
SHORTEST = timedelta(days=1)  # a forecast looks at no less: an hour's use is no measure of a month
NEVER_STOPS = "A budget never stops a job; a spend cap does: no quote above it can be accepted."


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
    """A budget for each month from this one on; marks that are reached already are told at once."""
    if amount <= 0:
        raise Problem(422, "Nothing budgeted", "Enter an amount above 0.", kind="budget-amount")
    if project_id and token_id:
        raise Problem(422, "Two scopes", "Choose a project or an API token, not both.", kind="budget-scope")
    Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    if Budget.objects.filter(organisation=organisation, deleted_at=None).count() >= BUDGETS_MAX:
        raise Problem(
            409, "Too many budgets", f"There are {BUDGETS_MAX} already; delete one first.", kind="too-many-budgets"
        )
    if project_id and not Project.objects.filter(organisation=organisation, pk=project_id).exists():
        raise Problem(422, "No such project", "Choose one of your projects.", kind="budget-scope")
    if token_id and not ApiToken.objects.filter(organisation=organisation, pk=token_id).exists():
        raise Problem(422, "No such token", "Choose one of your API tokens.", kind="budget-scope")
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
    """No more alerts; what it told stays."""
    budget.deleted_at = now
    budget.save(update_fields=["deleted_at"])
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
    """Used this month, and the same pace carried on to its end."""
    return used_and_forecasts([budget], now=now)[0]


def used_and_forecasts(budgets: Sequence[Budget], *, now: datetime) -> list[tuple[Decimal, Fraction]]:
    """The same for many budgets of one organisation, in one query."""
    if not budgets:
        return []
    start, end = month_of(now)
    scopes = [Scope(one.currency, one.project_id, one.token_id) for one in budgets]
    spent = spendings(organisation_id=budgets[0].organisation_id, scopes=scopes, now=now)
    elapsed = max(now - start, SHORTEST) // timedelta(microseconds=1)
    whole = (end - start) // timedelta(microseconds=1)
    return [(one.used, Fraction(one.used) * whole / elapsed) for one in spent]


def budget_check(budget: Budget, *, now: datetime) -> list[BudgetAlert]:
    """Fire every alert whose mark is reached and that this month has not had. Within the caller's transaction."""
    used, forecast = used_and_forecast(budget, now=now)
    month = month_of(now)[0].date()
    known = set(BudgetAlert.objects.filter(budget=budget, month=month).values_list("kind", "percent"))
    reached = {AlertKind.ACTUAL: Fraction(used), AlertKind.FORECAST: forecast}
    fired = [
        BudgetAlert(budget=budget, month=month, kind=kind, percent=percent, used=used, at=now)
        for kind, amount in reached.items()
        for percent in PERCENTS
        if amount * 100 >= percent * Fraction(budget.amount) and (kind.value, percent) not in known
    ]
    for alert in fired:
        alert.save(force_insert=True)
    for kind in reached:  # of marks that are passed together the highest is told
        highest = max((alert for alert in fired if alert.kind == kind), key=lambda one: one.percent, default=None)
        if highest is not None:
            _tell(highest, now)
    return fired


def _tell(alert: BudgetAlert, now: datetime) -> None:
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
    """Usage was posted: look at the organisation's budgets."""
    budgets = Budget.objects.filter(organisation_id=row.organisation_id, deleted_at=None)
    for budget in budgets.select_for_update(of=("self",)).select_related("project", "token"):
        budget_check(budget, now=now)


def alert_mail(row: OutboxRow, *, now: datetime) -> None:
    """The mail of an alert, to owners and billing people."""
    alert = BudgetAlert.objects.select_related("budget__project", "budget__token").get(pk=row.payload["alert"])
    members = Membership.objects.filter(organisation_id=row.organisation_id, role__in=MONEY, user__is_active=True)
    send_mail(*alert_words(alert), None, sorted(members.values_list("user__email", flat=True)))


def alert_words(alert: BudgetAlert) -> tuple[str, str]:
    """Subject and text."""
    budget = alert.budget
    amount, used = (money_exact_format(one, budget.currency) for one in (budget.amount, alert.used))
    what = "is used" if alert.kind == AlertKind.ACTUAL else "will be used by the end of the month, at this pace"
    subject = f"{alert.percent} % of a budget {what}"
    text = (
        f"Of the budget of {amount} for {budget.scope} in {alert.month:%B %Y}, {alert.percent} % or more {what}.\n"
        f"Used so far: {used}.\n{NEVER_STOPS}\n"
    )
    return subject, text
