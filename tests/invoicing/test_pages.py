from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from decimal import Decimal
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.roles import Scope
from apps.invoicing.exports import TOTALS
from apps.invoicing.models import BillingProfile, Invoice
from apps.invoicing.reconciliation import reconcile_all
from apps.ledger.models import Cap
from apps.pricing.rating import digest_of
from tests.cast import Cast
from tests.invoicing.checks import checked
from tests.invoicing.tenancy import an_invoice_of
from tests.sales.market import Market
from tests.sales.tenancy import a_contract_of
from tests.sales.test_contracts import run

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MILLION = 10**6


def _text(client: Client, url: str) -> str:
    response = client.get(url)
    assert response.status_code == 200, response.content[:500]
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", response.content.decode())).split())


def test_the_portal_shows_usage_and_quoted_against_actual(cast: Cast, as_user: AsUser) -> None:
    contract = a_contract_of(cast)
    run(contract, 250, now=timezone.now())
    client = as_user(cast.billing)
    page = _text(client, "/portal")
    assert "€ 0.00141 exact € 0.001408" in page
    assert "Linear projection" in page
    assert "version 1" in page
    page = _text(client, "/portal/contracts")
    assert "25.0 %" in page
    assert "not used yet" in page
    assert "By Model" in _text(client, "/portal/usage")


def test_an_empty_portal_says_so(cast: Cast, market: Market, as_user: AsUser) -> None:
    page = _text(as_user(cast.viewer), "/portal?days=7")
    assert "No usage has been recorded yet." in page
    assert "No budgets yet. Set a budget" in page
    assert "No invoices yet" in _text(as_user(cast.viewer), "/invoices")


def test_a_draft_becomes_an_invoice_that_opens_every_number(cast: Cast, as_user: AsUser) -> None:
    contract, client = a_contract_of(cast), as_user(cast.billing)
    run(contract, 1000, now=timezone.now())
    assert "0.005632" in _text(client, "/invoices/draft")
    response = client.post("/invoices/issue")
    invoice = Invoice.objects.get()
    assert response["Location"] == f"/invoices/{invoice.pk}"
    page = _text(client, response["Location"])
    for said in ("Why this number?", "Which leases?", "carried to the next invoice", "fully used", "takt verify"):
        assert said in page
    assert "has already been invoiced" in client.post("/invoices/issue", follow=True).content.decode()


def test_the_files_of_an_invoice_say_what_its_document_says(cast: Cast, as_user: AsUser) -> None:
    invoice, client = an_invoice_of(cast), as_user(cast.viewer)
    stored = json.loads(client.get(f"/invoices/{invoice.pk}/invoice.json").content)
    assert stored.pop("digest") == invoice.digest == digest_of(stored)
    rows = list(csv.DictReader(io.StringIO(client.get(f"/invoices/{invoice.pk}/invoice.csv").content.decode())))
    steps, totals = ([row for row in rows if bool(row["line"]) == of_line] for of_line in (True, False))
    assert steps[-1]["result"] == invoice.document["net"]
    assert [row["step"] for row in totals] == [*TOTALS]
    assert all(row["result"] == invoice.document[row["step"]] and invoice.number in row["model"] for row in totals)
    first, second = (client.get(f"/invoices/{invoice.pk}/invoice.pdf").content for _ in range(2))
    assert first == second
    assert first.startswith(b"%PDF")
    assert client.get(f"/invoices/{invoice.pk}/invoice.doc").status_code == 404


def test_an_administrator_marks_an_invoice_paid(cast: Cast, as_user: AsUser) -> None:
    invoice, admin = an_invoice_of(cast, executions=MILLION), as_user(cast.admin)
    assert invoice.number in _text(admin, "/payments")
    for amount, reference, status in (
        ("0", "a", 422),
        ("x", "a", 422),
        ("5.63", "", 422),
        ("0.63", "a", 302),
        ("5.00", "b", 302),
    ):
        response = admin.post("/payments", {"invoice": invoice.pk, "amount": amount, "reference": reference})
        assert response.status_code == status, (amount, reference)
    assert "No unpaid invoices" in _text(admin, "/payments")


def test_a_cap_and_an_addressee_are_set_in_the_portal(cast: Cast, market: Market, as_user: AsUser) -> None:
    client = as_user(cast.billing)
    cap = {"scope": "organisation"}
    client.post("/portal/caps", {**cap, "amount": "1,250.50"})
    assert Cap.objects.get().amount == Decimal("1250.5")
    assert "1,250.50" in _text(client, "/portal/caps")
    for wrong, said in (
        ("12.345", "write 12.34"),
        ("-1", "Enter an amount"),
        ("1,50", "Use a comma between thousands"),
    ):
        assert said in client.post("/portal/caps", {**cap, "amount": wrong}).content.decode()
    client.post("/portal/settings", {"legal_name": "Acme GmbH", "address": "Weg 1", "tax_id": "DE1"})
    assert BillingProfile.objects.get().legal_name == "Acme GmbH"
    client.post("/portal/caps", {**cap, "amount": ""})
    assert not Cap.objects.exists()


def test_the_ledger_page_proves_that_history_is_whole(cast: Cast, as_user: AsUser) -> None:
    an_invoice_of(cast)
    checked(cast)
    page = _text(as_user(cast.viewer), "/portal/ledger")
    assert "The ledger is intact" in page
    assert reconcile_all(cast.organisation).differences == []


def test_the_way_over_the_api(cast: Cast, as_token: Callable[..., Client]) -> None:
    contract = a_contract_of(cast)
    run(contract, 1000, now=timezone.now())
    client = as_token(cast.owner, cast.organisation, Scope.READ, Scope.BILLING)
    draft = client.get("/api/v1/invoices/draft").json()["document"]
    headers = {"Idempotency-Key": "invoice-1"}
    first, second = (
        client.post("/api/v1/invoices", {}, content_type="application/json", headers=headers) for _ in range(2)
    )
    assert first.status_code == 201, first.content
    assert first.json() == second.json()
    assert first.json()["net"] == draft["net"] == "0.005632"
    assert client.get("/api/v1/invoices").json()["results"][0]["number"] == first.json()["number"]
    assert client.get("/api/v1/usage").json()["results"][0]["detail"]["executions"] == 1000
    checked(cast)
    ledger = client.get("/api/v1/ledger").json()
    assert (ledger["intact"], ledger["differences"]) == (True, [])
    assert [(one["currency"], one["invoiced"]) for one in ledger["amounts"]] == [("EUR", "0.005632")]
    cap = client.put("/api/v1/spend-cap", {"amount": "99.50"}, content_type="application/json")
    assert cap.json() == {"cap": "99.5", "used": "0.005632", "held": "0", "currency": "EUR", "refuses": False}
    assert client.put("/api/v1/spend-cap", {"amount": "1e9"}, content_type="application/json").status_code == 422
