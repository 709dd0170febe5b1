"""Every currency by itself: revenue, customers, credits and the portal, on pages, in files and over the API."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.roles import Scope
from apps.invoicing.models import CreditGrant, Invoice
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import grant_create, invoice_issue
from apps.ledger.models import UsageRow
from apps.pricing.rating import exact_sum
from apps.pricing.services import pricebook_publish
from apps.reports.reconciling import organisation_compare
from tests.cast import Cast
from tests.invoicing.checks import checked
from tests.invoicing.test_currencies import MILLION, bought, priced
from tests.invoicing.test_pages import _text
from tests.invoicing.test_reconciling import behind_their_back
from tests.pricing.rating.books import document
from tests.sales.market import START, open_market
from tests.sales.test_contracts import run

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
AsToken = Callable[..., Client]


@pytest.fixture
def both(cast: Cast) -> Cast:
    """A million executions in euro and half as many in yen, all of this month; the euro are invoiced; a credit in each."""
    market, now = open_market(), timezone.now()
    changed = now - timedelta(hours=1)
    pricebook_publish(document=document(priced("JPY", 0, "0.8", 2)), effective_from=changed, now=START)
    for executions, quoted in ((MILLION, changed - timedelta(hours=1)), (MILLION // 2, now)):
        run(bought(cast, market, executions, quoted), executions, now=now)
    for code, amount in (("EUR", "2.5"), ("JPY", "100")):
        grant_create(
            organisation=cast.organisation,
            amount=Decimal(amount),
            currency=code,
            reason=f"Welcome in {code}",
            expires_at=None,
            idempotency_key=code,
            actor=cast.admin,
            now=now,
        )
    invoice_issue(organisation=cast.organisation, currency="EUR", actor=None, now=timezone.now())
    return cast


def test_revenue_has_a_row_for_every_currency(both: Cast, as_user: AsUser, as_token: AsToken) -> None:
    api, admin = as_token(both.admin, None, Scope.ADMIN), as_user(both.admin)
    found = api.get("/api/v1/revenue").json()
    assert {one["currency"]: one["amount"] for one in found["by_currency"]} == {"JPY": "281.6", "EUR": "5.632"}
    for code in ("EUR", "JPY"):
        told = api.get(f"/api/v1/revenue?currency={code}").json()
        whole = exact_sum(UsageRow.objects.filter(currency=code).values_list("amount", flat=True))
        assert (told["currency"], Decimal(told["whole"]["amount"])) == (code, whole)
        for group in ("by_pool", "by_class", "by_customer"):
            assert exact_sum(Decimal(one["amount"]) for one in told[group]) == whole
        page = _text(admin, f"/revenue?currency={code}")
        assert f"{code} (shown below)" in page
        assert "€ 5.63" in page
        assert "JPY 282" in page
    assert api.get("/api/v1/revenue?currency=USD").status_code == 422
    rows = list(csv.DictReader(io.StringIO(admin.get("/revenue?format=csv").content.decode())))
    sums = {
        code: exact_sum(Decimal(row["amount"]) for row in rows if (row["by"], row["currency"]) == ("customer", code))
        for code in ("EUR", "JPY")
    }
    assert sums == {"EUR": Decimal("5.632"), "JPY": Decimal("281.6")}


def test_customers_the_portal_and_credits_have_a_row_for_every_currency(
    both: Cast, as_user: AsUser, as_token: AsToken
) -> None:
    admin, owner = as_user(both.admin), as_user(both.owner)
    page = _text(admin, "/customers?q=acme")
    assert f"{both.organisation.name} EUR 1 € 3.13 € 0.00" in page
    assert f"{both.organisation.name} JPY 0 JPY 0 JPY 100" in page
    portal = _text(owner, "/portal")
    for said in (
        "In EUR",
        "In JPY",
        "€ 5.63",
        "JPY 282",
    ):
        assert said in portal, said
    credits_page = _text(owner, "/portal/credits")
    assert "Welcome in EUR" in credits_page
    assert "Welcome in JPY" in credits_page
    assert "Amounts in JPY only." in _text(owner, "/portal/usage?currency=JPY")
    rows = list(csv.DictReader(io.StringIO(b"".join(owner.get("/portal/usage?format=csv")).decode())))  # type: ignore[call-overload]
    assert sorted((row["currency"], row["amount"]) for row in rows) == [("EUR", "5.632"), ("JPY", "281.6")]
    api = as_token(both.owner, both.organisation, Scope.READ)
    told = {code: api.get(f"/api/v1/usage/summary?currency={code}").json() for code in ("EUR", "JPY")}
    assert {code: one["whole"]["amount"] for code, one in told.items()} == {"EUR": "5.632", "JPY": "281.6"}
    assert told["EUR"]["currencies"] == told["JPY"]["currencies"] == ["JPY", "EUR"]
    assert {one["currency"]: one["left"] for one in api.get("/api/v1/credits").json()} == {"EUR": "0", "JPY": "100"}
    checked(both)
    sums = {one["currency"]: (one["metered"], one["invoiced"]) for one in api.get("/api/v1/ledger").json()["amounts"]}
    assert sums == {"EUR": ("5.632", "5.632"), "JPY": ("281.6", "0")}
    stages = {one.name: one.amounts for one in organisation_compare(both.organisation).stages}
    assert stages["posted"] == {"EUR": "5.632", "JPY": "281.6"}


def test_differences_of_two_currencies_do_not_make_up_for_each_other(both: Cast) -> None:
    """A euro more beside a yen less is two differences."""
    invoice = Invoice.objects.get()
    grant_create(
        organisation=both.organisation,
        amount=Decimal(1),
        currency="EUR",
        reason="x",
        expires_at=None,
        idempotency_key="x",
        actor=None,
        now=timezone.now(),
    )
    assert reconcile_all(both.organisation).differences == []
    euro, yen = (CreditGrant.objects.filter(currency=code).latest("granted_at") for code in ("EUR", "JPY"))
    with behind_their_back("billing_creditgrant"):
        CreditGrant.objects.filter(pk=euro.pk).update(amount=euro.amount + 1)
        CreditGrant.objects.filter(pk=yen.pk).update(amount=yen.amount - 1)
        found = reconcile_all(both.organisation).differences
    assert "the account credit minus what is left of grants is 1 EUR" in found
    assert "the account credit minus what is left of grants is -1 JPY" in found
    assert invoice.open == Decimal("3.13")


def test_a_credit_is_ended_on_the_customers_page_and_over_the_api(
    both: Cast, as_user: AsUser, as_token: AsToken
) -> None:
    place, admin = f"/customers/{both.organisation.pk}", as_user(both.admin)
    grant = CreditGrant.objects.get(currency="JPY")
    assert "Withdraws up to JPY 100" in _text(admin, place)
    for wrong in ({"credit": str(grant.pk), "reason": " "}, {"credit": str(both.organisation.pk), "reason": "x"}):
        assert admin.post(place, {"form": "end", **wrong}).status_code == 422
    assert (
        admin.post(place, {"form": "end", "credit": str(grant.pk), "reason": "Meant for Other Works"}).status_code
        == 302
    )
    for client, path in ((admin, place), (as_user(both.owner), "/portal/credits")):
        assert "Meant for Other Works" in _text(client, path)
    api, path = as_token(both.admin, None, Scope.ADMIN), f"/api/v1/credits/{grant.pk}/end"
    refused = api.post(path, {"reason": "again"}, content_type="application/json")
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        "This credit has already ended: Meant for Other Works",
    )
    body = {"organisation": str(both.organisation.pk), "amount": "7", "currency": "JPY", "reason": "a try"}
    granted = api.post("/api/v1/credits", body, content_type="application/json").json()
    assert (granted["currency"], granted["left"], granted["ended_at"]) == ("JPY", "7", None)
    key = {"Idempotency-Key": "end-1"}
    for _ in range(2):
        answer = api.post(
            f"/api/v1/credits/{granted['id']}/end",
            {"reason": "a mistake"},
            content_type="application/json",
            headers=key,
        )
        assert (answer.status_code, answer.json()["left"], answer.json()["end_reason"]) == (200, "0", "a mistake")
    refused = api.post("/api/v1/credits", {**body, "amount": "1000001"}, content_type="application/json")
    assert (refused.status_code, "at most JPY\u202f1,000,000" in refused.json()["detail"]) == (422, True)
    assert reconcile_all(both.organisation).differences == []


def test_a_margin_is_known_in_every_currency_in_which_a_cost_is_entered(
    both: Cast, as_user: AsUser, as_token: AsToken
) -> None:
    admin, api = as_user(both.admin), as_token(both.admin, None, Scope.ADMIN)
    assert api.get("/api/v1/revenue?currency=EUR").json()["whole"]["margin"] is None
    for name in ("lpu", "lpu2", "host"):
        sent = {"processor_class": name, "per_hour": "2", "currency": "EUR", "effective_from": "2020-01-01T00:00"}
        assert admin.post("/costs", sent).status_code == 302
    assert api.get("/api/v1/revenue?currency=EUR").json()["whole"]["margin"] is not None
    assert api.get("/api/v1/revenue?currency=JPY").json()["whole"]["margin"] is None
    wrong = {"processor_class": "lpu", "per_hour": "2", "currency": "XXX", "effective_from": "2020-01-01T00:00"}
    assert admin.post("/costs", wrong).status_code == 422
