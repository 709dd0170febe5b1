"""The portal's pages: usage by what it was for, what was not billed, budgets, caps and credits with what is left."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.utils import timezone

from apps.accounts.models import AuditEntry, User
from apps.dispatch.models import Lease, LeaseState
from apps.invoicing.services import grant_create, invoice_issue
from apps.ledger.models import Cap
from apps.ledger.services import cap_set
from apps.notifications.budgets.services import budget_create
from apps.notifications.models import Budget
from apps.portal.forms import GROUPS, UsageForm
from apps.portal.selectors import cap_rows, credit_changes, excluded
from apps.portal.usage import OTHERS, SERIES_MAX, UsageReport, usage_report
from apps.pricing.rating import exact_sum
from apps.pricing.selectors import book_in_force, document_of
from apps.registry.models import Project
from apps.sales.services import Quota, contract_executions_take, quote_accept, quote_create
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.invoicing.checks import checked
from tests.invoicing.test_pages import _text
from tests.sales.market import NOW, Market
from tests.sales.tenancy import a_contract_of
from tests.sales.test_contracts import run, sold

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]


def _report(cast: Cast, **asked: Any) -> UsageReport:
    query = QueryDict(mutable=True)
    query.update(
        {"first": f"{NOW - timedelta(days=1):%Y-%m-%d}", "last": f"{NOW + timedelta(days=3):%Y-%m-%d}", **asked}
    )
    form = UsageForm(query, organisation=cast.organisation, currency="EUR", now=NOW)
    assert form.is_valid(), form.errors
    book = document_of(book_in_force(at=NOW))
    return usage_report(organisation=cast.organisation, query=form.query(), book=book)


def test_usage_is_parted_by_whatever_is_asked_and_always_sums_to_the_same(cast: Cast, market: Market) -> None:
    first, second = sold(cast, market), sold(cast, market, klass="batch")
    run(first, 10)
    run(first, 20, now=NOW + timedelta(days=1))
    run(second, 5, now=NOW + timedelta(days=1))
    plain = _report(cast)
    assert [one.executions for _, _, one in plain.days] == [0, 10, 25, 0, 0]
    assert {one.name: one.executions for one in _report(cast, group="class").groups} == {"standard": 30, "batch": 5}
    assert _report(cast, klass="batch").total.executions == 5
    assert _report(cast, key="none").total.executions == 35
    for group in GROUPS:
        report = _report(cast, group=group)
        assert report.total == plain.total
        assert exact_sum(one.amount for one in report.groups) == plain.total.amount
        drawn = [report.amount(parts, name) for _, parts, _ in report.days for name in report.series]
        assert exact_sum(drawn) == plain.total.amount


def test_parts_beyond_the_colours_are_drawn_together(cast: Cast, market: Market) -> None:
    contract = sold(cast, market)
    for number in range(SERIES_MAX + 3):
        run(contract, number + 1, model=f"model {number}")
    report = _report(cast)
    assert len(report.groups) == SERIES_MAX + 3
    assert report.series[-1] == OTHERS
    ((_, amounts, whole),) = report.days_with_usage
    assert len(amounts) == SERIES_MAX + 1
    assert exact_sum(amounts) == whole.amount == exact_sum(one.amount for one in report.groups)


WRONG_FILTERS = (
    "first=2026-13-01",
    "first=2026-02-02&last=2026-02-01",
    "first=1990-01-01",
    "last=9999-12-31",
    "group=%27",
    "group=amount",
    "key=00000000-0000-0000-0000-000000000000",
    "model=%3Cscript%3Ehostile",
    "project=1",
    "key=none&klass=%F0%9F%92%B6",
)


def test_filters_that_do_not_fit_are_said_and_the_page_is_there(cast: Cast, market: Market, as_user: AsUser) -> None:
    client = as_user(cast.viewer)
    for query in WRONG_FILTERS:
        page = client.get(f"/portal/usage?{query}").content.decode()
        assert "These filters are not valid" in page, query
        assert "<script>hostile" not in page
    assert "Billing portal" in client.get(f"/portal?{query}").content.decode()


def test_a_strangers_project_is_no_filter(cast: Cast, market: Market, as_user: AsUser) -> None:
    theirs = Project.objects.create(organisation=cast.stranger_organisation, name="Theirs", created_at=NOW)
    assert "These filters are not valid" in _text(as_user(cast.viewer), f"/portal/usage?project={theirs.pk}")


def test_the_file_of_usage_is_exact_and_no_formula(cast: Cast, as_user: AsUser) -> None:
    contract = a_contract_of(cast)
    run(contract, 250, now=timezone.now(), model="=1+1")
    answer = as_user(cast.viewer).get("/portal/usage?format=csv")
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["model"], row["executions"], row["amount"], row["api_token"]) == (
        "'=1+1",
        "250",
        "0.001408",
        "in the browser",
    )


def test_the_api_says_what_the_page_says(cast: Cast, as_user: AsUser) -> None:
    contract, client = a_contract_of(cast), as_user(cast.viewer)
    run(contract, 250, now=timezone.now())
    told = client.get("/api/v1/usage/summary?group=key").json()
    assert told["whole"]["amount"] == "0.001408"
    assert [(one["name"], one["executions"]) for one in told["parts"]] == [("in the browser", 250)]
    assert [one["amount"] for one in told["days"]] == ["0.001408"]
    for query in ("last=2020-01-01", "model=nobody", "project=1", "key=1"):
        answer = client.get(f"/api/v1/usage/summary?{query}")
        assert (answer.status_code, answer["Content-Type"]) == (422, "application/problem+json"), query
    assert client.get("/api/v1/usage/summary?group=amount").status_code == 422


def test_what_is_not_billed_has_a_reason(scene: Scene) -> None:
    contract = scene.contract((scene.program(), 100))
    done = scene.run(scene.job(contract, items=4))
    Lease.objects.filter(stage__job=done).update(epoch=3)
    gone = scene.job(contract, items=6)
    Lease.objects.filter(stage__job=gone).update(state=LeaseState.REVOKED, finished_at=scene.now)
    span = {"start": scene.now - timedelta(days=9), "end": scene.now + timedelta(days=9)}
    taken, again = excluded(organisation=scene.cast.organisation, **span)
    assert (taken.executions, again.executions) == (6, 8)
    assert excluded(organisation=scene.cast.stranger_organisation, **span) == []


def test_the_portal_tells_of_budgets_caps_and_how_credits_are_used_up(cast: Cast, as_user: AsUser) -> None:
    contract, client = a_contract_of(cast, executions=10**6), as_user(cast.billing)
    now = timezone.now()
    grant_create(
        organisation=cast.organisation,
        amount=Decimal(10),
        currency="EUR",
        reason="Welcome",
        expires_at=None,
        idempotency_key="g",
        actor=cast.admin,
        now=now,
    )
    run(contract, 10**6, now=now)
    budget_create(organisation=cast.organisation, amount=Decimal(5), currency="EUR", actor=cast.billing, now=now)
    invoice = invoice_issue(organisation=cast.organisation, actor=cast.billing, now=timezone.now())
    changes = credit_changes(cast.organisation, currency="EUR")
    assert [change.left for change in changes] == [Decimal(10), Decimal("4.368")]
    for path, sentences in (
        (
            "/portal",
            ("100 % of the budget for the whole organisation has been used", "over budget", "audit log", "As of"),
        ),
        ("/portal/budgets", ("over budget", "Threshold", "Basis", "Actual usage")),
        ("/portal/contracts", ("fully used",)),
        ("/portal/credits", ("Credits left in EUR", f"invoice {invoice.number}", "Granted: Welcome")),
        ("/portal/usage", ("Measured, billable, excluded",)),
        ("/invoices", (invoice.number,)),
    ):
        page = _text(client, path)
        for sentence in sentences:
            assert sentence in page, (path, sentence)


def test_a_long_name_wraps_in_the_table_of_contracts(cast: Cast, as_user: AsUser) -> None:
    """Only the number is kept in one line, and the reason has a row of its own, so that the table fits the page."""
    contract = a_contract_of(cast)
    run(contract, 250, now=timezone.now())
    contract.name = "A name of many words that is as long as names of contracts can be, " + "x" * 13
    contract.save(update_fields=["name"])
    page = as_user(cast.billing).get("/portal/contracts").content.decode()
    assert f'<span class="text-nowrap">{contract.reference}</span> {contract.name}</span>' in page
    assert '<table class="table table-compared">' in page
    assert re.search(
        r'<tr class="line-why text-secondary"><td colspan="6">750 of 1,000 executions .* not used yet', page
    )


TABS = {
    "/portal": "Overview",
    "/portal/usage": "Usage",
    "/portal/contracts": "Quoted vs. actual",
    "/portal/budgets": "Budgets",
    "/portal/caps": "Spend caps",
    "/portal/credits": "Credits",
    "/invoices": "Invoices",
    "/portal/payment-methods": "Payment",
    "/portal/settings": "Billing address",
    "/portal/ledger": "Ledger",
    "/portal/webhooks": "Webhooks",
}
FOR_BILLING = {"/portal/payment-methods", "/portal/settings", "/portal/webhooks"}


def test_every_tab_is_a_page_of_its_own_that_names_itself(cast: Cast, market: Market, as_user: AsUser) -> None:
    client = as_user(cast.billing)
    for path, label in TABS.items():
        page = client.get(path).content.decode()
        tabs = page[page.index('aria-label="Billing"') :].partition("</nav>")[0]
        assert re.findall(r'href="([^"]+)"', tabs) == list(TABS), path
        assert re.findall(r'aria-current="page">([^<]+)<', tabs) == [label], path
    page = as_user(cast.viewer).get("/portal").content.decode()
    assert not [path for path in FOR_BILLING if f'href="{path}"' in page]


def test_empty_parts_take_one_line_with_what_to_do(cast: Cast, market: Market, as_user: AsUser) -> None:
    client = as_user(cast.owner)
    for path, lines in (
        ("/portal", ("No usage in the last 30 days. Run a job", "No budgets yet. Set a budget", "No invoices yet")),
        ("/portal/contracts", ("No contracts yet.", "No commitment is in force.")),
        ("/portal/budgets", ("No budgets yet. Enter an amount",)),
        ("/portal/credits", ("No credits.",)),
        ("/portal/webhooks", ("No endpoints yet.",)),
        ("/portal/payment-methods", ("Invoices are paid by bank transfer.",)),
    ):
        page = _text(client, path)
        for line in lines:
            assert line in page, (path, line)


NONSENSE = (
    "",
    "-5",
    "0",
    "1" + "0" * 17,
    "1" + "0" * 20,
    "abc",
    "1e5",
    "NaN",
    "💶",
    "9" * 10_000,
    "٣",
    "1,50",
    "0.001",
    "\x00",
)


@pytest.mark.parametrize("path", ["/portal/budgets", "/portal/caps"])
def test_an_amount_that_is_none_gets_a_sentence(path: str, cast: Cast, market: Market, as_user: AsUser) -> None:
    client = as_user(cast.billing)
    fine = {"", "0"} if path == "/portal/caps" else set()  # an empty cap is removed, and 0 blocks all spending
    for amount in NONSENSE:
        response = client.post(path, {"amount": amount, "scope": "organisation"})
        if amount in fine:
            assert response.status_code == 302, amount
            continue
        assert response.status_code == 422, amount
        assert re.search(r'class="form-error".*?<span>\s*\S', response.content.decode(), re.DOTALL), amount
    assert not Budget.objects.exists()


def test_a_budget_is_created_once_and_deleted_once(cast: Cast, market: Market, as_user: AsUser) -> None:
    client = as_user(cast.billing)
    sent = {"amount": "250.00", "scope": "organisation"}
    assert client.post("/portal/budgets", sent).status_code == 302
    again = client.post("/portal/budgets", sent)
    assert (again.status_code, "already a budget" in again.content.decode()) == (422, True)
    place = f"/portal/budgets/{Budget.objects.get().pk}/delete"
    for _ in range(2):
        assert client.post(place).status_code == 302
    assert AuditEntry.objects.filter(action="budget.delete").count() == 1


def test_caps_of_every_scope_are_set_on_their_page(cast: Cast, market: Market, as_user: AsUser) -> None:
    project = market.program(cast.organisation, cast.engineer).model_version.model.project
    client = as_user(cast.billing)
    client.post("/portal/caps", {"scope": f"project:{project.pk}", "amount": "12.50"})
    client.post("/portal/caps", {"scope": "organisation", "amount": "250"})
    page = _text(client, "/portal/caps")
    assert f"project {project.name}" in page
    assert "€ 12.50" in page
    for scope, amount, said in (
        ("organisation", "12.345", "EUR has 2 decimal places; write 12.34."),
        ("organisation", "-1", "Enter an amount"),
        ("token:00000000-0000-0000-0000-000000000000", "1", "Select a valid choice"),
        ("", "1", "This field is required"),
    ):
        assert said in client.post("/portal/caps", {"scope": scope, "amount": amount}).content.decode()
    client.post("/portal/caps", {"scope": f"project:{project.pk}", "amount": ""})
    assert [cap.scope for cap in Cap.objects.all()] == ["organisation"]
    assert as_user(cast.viewer).post("/portal/caps", {"scope": "organisation", "amount": "1"}).status_code == 403


def test_a_projects_cap_counts_what_its_jobs_were_promised_from_a_quota(scene: Scene) -> None:
    cast, program = scene.cast, scene.program(operations=10**12)
    project = program.model_version.model.project
    cap_set(organisation=cast.organisation, amount=Decimal(1), currency="EUR", now=scene.now, project_id=project.pk)
    quote = quote_create(
        organisation=cast.organisation,
        lines=Quota("float32", 20),
        klass="standard",
        pool=scene.market.lpu,
        window=(scene.now, scene.now + timedelta(days=1)),
        actor=None,
        now=scene.now,
    )
    contract = quote_accept(quote_id=quote.pk, organisation=cast.organisation, actor=cast.owner, now=scene.now)
    contract_executions_take(
        contract_id=contract.pk, program_digest=program.digest, count=5, now=scene.now, program=program
    )
    (row,) = cap_rows(cast.organisation, now=scene.now)
    assert (row.spent.used, row.spent.held, row.left) == (0, Decimal("0.04"), Decimal("0.96"))


def test_the_ledger_is_read_page_by_page_and_a_changed_row_does_not_follow(
    cast: Cast, as_user: AsUser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.portal.ledger.PER_PAGE", 3)
    contract, client = a_contract_of(cast), as_user(cast.viewer)
    for _ in range(4):
        run(contract, 1, now=timezone.now())
    page = _text(client, "/portal/ledger")
    assert "all 5 transactions" in page
    assert "The ledger is intact" not in page
    checked(cast)
    assert "The ledger is intact" in _text(client, "/portal/ledger")
    following = client.get("/portal/ledger").context["page"].next
    first, second = _rows(client, ""), _rows(client, following)
    assert [*first, *second] == [(number, "yes") for number in (5, 4, 3, 2, 1)]
    with connection.cursor() as cursor:  # behind the guards of the database
        cursor.execute("SET session_replication_role = replica")
        cursor.execute("UPDATE ledger_transaction SET subject = 'another' WHERE sequence = 4")
        cursor.execute("SET session_replication_role = DEFAULT")
    assert [number for number, follows in _rows(client, "") if follows == "no"] == [4]
    checked(cast)
    assert "The ledger has errors" in _text(client, "/portal/ledger")


def _rows(client: Client, query: str) -> list[tuple[int, str]]:
    rows = client.get(f"/portal/ledger{query}").context["rows"]
    return [(row.posted.sequence, "yes" if row.follows else "no") for row in rows]
