"""A budget tells each mark once a month, of what is used and of what is expected, and stops nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

import pytest
from django.core import mail
from django.test import Client

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.invoicing.outbox import outbox_deliver
from apps.ledger.models import Hold, OutboxRow
from apps.notifications.budgets.services import budget_create, used_and_forecast
from apps.notifications.models import Budget, BudgetAlert
from apps.registry.models import Project
from tests.cast import Cast
from tests.ledger.money import held, rating, used
from tests.sales.market import Market

pytestmark = pytest.mark.django_db
LATE = datetime(2026, 11, 30, 23, 59, tzinfo=UTC)  # the forecast is all but what is used
HALF = datetime(2026, 11, 16, tzinfo=UTC)  # half of the month is over


def set_for(cast: Cast, executions: int, **scope: object) -> Budget:
    amount = rating(executions).amount
    return budget_create(
        organisation=cast.organisation, amount=amount, currency="EUR", actor=cast.billing, now=HALF, **scope
    )


def use(hold: Hold, executions: int, now: datetime) -> None:
    """Usage, and the outbox until nothing is left of it, the mails of alerts included."""
    used(hold, executions, now=now)
    while outbox_deliver(now=now):
        pass


def fired(kind: str) -> list[int]:
    return sorted(BudgetAlert.objects.filter(kind=kind).values_list("percent", flat=True))


def test_each_mark_of_what_is_used_is_told_once(cast: Cast) -> None:
    set_for(cast, 100)
    hold = held(cast.organisation, executions=1000, now=HALF)
    for executions, expected in ((49, []), (1, [50]), (10, [50]), (15, [50, 75]), (25, [50, 75, 90, 100]), (50, None)):
        use(hold, executions, LATE)
        assert fired("actual") == (expected if expected is not None else [50, 75, 90, 100])
    told = [row.payload for row in OutboxRow.objects.filter(topic="budget.alert").order_by("id")]
    assert [one["percent"] for one in told if one["kind"] == "actual"] == [50, 75, 100], (
        "the highest of those passed at once"
    )
    assert all(one["stops_jobs"] is False for one in told)
    assert len(mail.outbox) == len(told)
    assert sorted(mail.outbox[0].to) == [cast.billing.email, cast.owner.email]
    assert all("Budgets send alerts only" in one.body for one in mail.outbox)


def test_the_forecast_warns_before_it_is_used(cast: Cast) -> None:
    budget = set_for(cast, 100)
    use(held(cast.organisation, executions=1000, now=HALF), 45, HALF)
    assert used_and_forecast(budget, now=HALF) == (rating(45).amount, Fraction(rating(90).amount))
    assert (fired("actual"), fired("forecast")) == ([], [50, 75, 90])
    assert "by the end of the month at this pace" in mail.outbox[0].body


def test_the_forecast_gives_no_alert_for_what_has_been_used(cast: Cast) -> None:
    set_for(cast, 100)
    use(held(cast.organisation, executions=1000, now=HALF), 100, HALF)
    assert (fired("actual"), fired("forecast")) == ([50, 75, 90, 100], [])
    assert [one.subject for one in mail.outbox] == ["100 % of a budget has been used"]


def test_a_new_month_begins_anew(cast: Cast) -> None:
    set_for(cast, 100)
    hold = held(cast.organisation, executions=1000, now=HALF)
    use(hold, 100, LATE)
    use(hold, 60, LATE + timedelta(days=30))
    alerts = BudgetAlert.objects.filter(kind="actual").order_by("month", "percent")
    assert [(one.month.month, one.percent) for one in alerts] == [(11, 50), (11, 75), (11, 90), (11, 100), (12, 50)]


def test_the_first_day_of_a_month_is_not_carried_on_from_minutes(cast: Cast) -> None:
    budget, first = set_for(cast, 100), datetime(2026, 12, 1, 0, 1, tzinfo=UTC)
    use(held(cast.organisation, executions=1000, now=HALF), 2, first)
    assert used_and_forecast(budget, now=first)[1] == 31 * Fraction(rating(2).amount)


def test_a_budget_counts_what_its_project_used(cast: Cast) -> None:
    mine, other = (
        Project.objects.create(organisation=cast.organisation, name=name, created_at=HALF) for name in ("Mine", "Other")
    )
    budget = set_for(cast, 100, project_id=mine.pk)
    for project, executions in ((mine, 55), (other, 300)):
        hold = held(cast.organisation, executions=executions, now=HALF)
        used(hold, executions, now=LATE, project_id=project.pk)
    outbox_deliver(now=LATE)
    assert used_and_forecast(budget, now=LATE)[0] == rating(55).amount
    assert fired("actual") == [50]
    with pytest.raises(Problem, match="one of your projects"):
        set_for(cast, 1, project_id=cast.organisation.pk)


def test_a_budget_that_is_passed_already_says_so_at_once(cast: Cast) -> None:
    used(held(cast.organisation, executions=1000, now=HALF), 80, now=HALF)
    set_for(cast, 100)
    assert (fired("actual"), fired("forecast")) == ([50, 75], [90, 100]), (
        "the forecast says nothing of what has been used"
    )
    with pytest.raises(Problem, match="above 0"):
        budget_create(organisation=cast.organisation, amount=Decimal(0), currency="EUR", actor=cast.owner, now=HALF)


def test_budgets_are_set_seen_and_deleted_on_their_page(
    cast: Cast, market: Market, as_user: Callable[[User], Client]
) -> None:
    client = as_user(cast.billing)
    page = client.post("/portal/budgets", {"amount": "250.00", "scope": "organisation"}, follow=True).content.decode()
    assert "Alerts only: jobs keep running." in page
    assert "250.00" in page
    assert (
        "Enter an amount" in client.post("/portal/budgets", {"amount": "x", "scope": "organisation"}).content.decode()
    )
    assert "250.00" in as_user(cast.viewer).get("/portal/budgets").content.decode()
    client.post(f"/portal/budgets/{Budget.objects.get().pk}/delete")
    assert "No budgets yet" in client.get("/portal/budgets").content.decode()


def test_the_way_over_the_api(cast: Cast, market: Market, as_token: Callable[..., Client]) -> None:
    client = as_token(cast.owner, cast.organisation, Scope.READ, Scope.BILLING)
    made = client.post("/api/v1/budgets", {"amount": "12.50"}, content_type="application/json")
    assert (made.status_code, made.json()["amount"], made.json()["scope"]) == (201, "12.5", "the whole organisation")
    assert [one["id"] for one in client.get("/api/v1/budgets").json()["results"]] == [made.json()["id"]]
    assert client.get("/api/v1/budget-alerts").json()["results"] == []
    assert client.delete(f"/api/v1/budgets/{made.json()['id']}").status_code == 204
