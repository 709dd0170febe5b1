"""The administrator's pages of customers: credits, tax, credit notes, void, write off."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.invoicing.models import BillingProfile, CreditGrant, CreditNote, Invoice
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import invoice_mark_paid
from apps.invoicing.services.credit_lines import credit_lines
from apps.invoicing.services.settling import balance_of
from tests.cast import Cast
from tests.invoicing.tenancy import an_invoice_of
from tests.invoicing.test_pages import _text
from tests.sales.market import Market

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MILLION = 10**6


def test_a_credit_is_granted_once_however_often_the_form_is_sent(cast: Cast, market: Market, as_user: AsUser) -> None:
    client, place = as_user(cast.admin), f"/customers/{cast.organisation.pk}"
    assert cast.organisation.name in _text(client, "/customers?q=acme")
    assert "No organisation matches" in _text(client, "/customers?q=%27%3B--")
    sent = {"form": "grant", "amount": "12.50", "reason": "Welcome", "key": str(uuid4())}
    for _ in range(2):
        assert client.post(place, sent).status_code == 302
    assert CreditGrant.objects.get().amount == Decimal("12.5")
    assert "Credits left in EUR" in _text(client, place)
    for wrong in (
        {"amount": "0"},
        {"amount": "1.234"},
        {"amount": "1e9"},
        {"reason": " "},
        {"expires": "2020-01-01"},
        {"expires": "9999-12-31"},
        {"key": "x"},
        {"amount": "13.00"},
    ):
        key = {} if wrong == {"amount": "13.00"} else {"key": str(uuid4())}
        answer = client.post(place, {**sent, **key, **wrong})
        assert answer.status_code == 422, wrong
        assert "form-error" in answer.content.decode() or 'role="alert"' in answer.content.decode()
    assert CreditGrant.objects.count() == 1


def test_the_tax_of_a_customer_fits_its_scheme(cast: Cast, market: Market, as_user: AsUser) -> None:
    client, place = as_user(cast.admin), f"/customers/{cast.organisation.pk}"
    good = {"form": "tax", "tax_scheme": "standard", "tax_percent": "19", "payment_days": "30"}
    assert client.post(place, good).status_code == 302
    profile = BillingProfile.objects.get()
    assert (profile.tax_rate, profile.payment_days) == (Decimal("0.19"), 30)
    for wrong in (
        {"tax_percent": "100"},
        {"tax_percent": "-1"},
        {"tax_percent": "1.234"},
        {"tax_percent": "NaN"},
        {"tax_scheme": "exempt"},
        {"tax_scheme": "reverse_charge", "tax_percent": "0"},
        {"tax_scheme": "x"},
        {"payment_days": "-1"},
    ):
        assert client.post(place, {**good, **wrong}).status_code == 422, wrong
    BillingProfile.objects.update(tax_id="DE1")
    assert client.post(place, {**good, "tax_scheme": "reverse_charge", "tax_percent": "0"}).status_code == 302


def test_parts_of_an_invoice_are_taken_back_until_nothing_is_left(cast: Cast, as_user: AsUser) -> None:
    invoice, client = an_invoice_of(cast, executions=MILLION), as_user(cast.admin)
    place = f"/customers/invoices/{invoice.pk}"
    assert [(line.number, line.left) for line in credit_lines(invoice)] == [(1, Decimal("5.63"))]
    for wrong in ({"line_1": "5.64"}, {"line_1": "0.001"}, {"line_1": "-1"}, {"reason": ""}):
        answer = client.post(place, {"form": "note", "line_1": "1.00", "reason": "late", **wrong})
        assert answer.status_code == 422, wrong
    client.post(place, {"form": "note", "line_1": "1.63", "reason": "late"})
    (line,) = credit_lines(invoice)
    assert line.left == Decimal(4)
    page = _text(client, place)
    assert re.search(r"Credit note C-\d{4}-000001, €\s1.63 : late", page)
    client.post(place, {"form": "note", "reason": "the rest"})
    assert [note.total for note in CreditNote.objects.order_by("number")] == [Decimal("1.63"), Decimal(4)]
    assert "nothing left" in _text(client, place)
    assert client.post(place, {"form": "note", "reason": "more"}).status_code == 422


@pytest.mark.parametrize(("action", "state"), [("void", "void"), ("write-off", "written_off")])
def test_an_invoice_that_will_not_be_paid_is_ended(cast: Cast, as_user: AsUser, action: str, state: str) -> None:
    invoice, client = an_invoice_of(cast, executions=MILLION), as_user(cast.admin)
    place = f"/customers/invoices/{invoice.pk}"
    for wrong in ({"action": action}, {"action": "collection", "reason": "x"}, {"action": "burn", "reason": "x"}):
        assert client.post(place, {"form": "end", **wrong}).status_code == 422
    assert client.post(place, {"form": "end", "action": action, "reason": "gone"}).status_code == 302
    assert Invoice.objects.get().state == state
    assert Invoice.objects.get().open == 0


def test_a_balance_is_given_back_by_page_and_api_once_each(cast: Cast, as_user: AsUser) -> None:
    invoice, client = an_invoice_of(cast, executions=MILLION), as_user(cast.admin)
    place = f"/customers/{cast.organisation.pk}"
    assert "Refund the balance" not in _text(client, place)
    invoice_mark_paid(
        invoice_id=invoice.id, amount=Decimal("7.63"), reference="1", actor=cast.admin, now=timezone.now()
    )
    assert "Refund the balance" in _text(client, place)
    sent = {"form": "refund", "amount": "1.25", "reference": "7/11", "key": str(uuid4())}
    for wrong in ({"amount": "2.01"}, {"amount": "0"}, {"amount": "NaN"}, {"reference": ""}, {"key": "x"}):
        answer = client.post(place, {**sent, "key": str(uuid4()), **wrong})
        assert answer.status_code == 422, wrong
    for _ in range(2):
        assert client.post(place, sent).status_code == 302
    assert client.post(place, {**sent, "amount": "0.01"}).status_code == 422, "the key stands for another refund"
    assert balance_of(cast.organisation.id, "EUR") == Decimal("0.75")
    body = {"organisation": str(cast.organisation.pk), "amount": "0.50", "reference": "8/11"}
    for _ in range(2):
        answer = client.post(
            "/api/v1/refunds", body, content_type="application/json", headers={"Idempotency-Key": "refund-1"}
        )
        assert (answer.status_code, answer.json()["balance"]) == (201, "0.25")
    refused = client.post("/api/v1/refunds", {**body, "amount": "0.26"}, content_type="application/json")
    assert (refused.status_code, refused.json()["detail"][:22]) == (409, "The balance is €\u202f0.25.")
    assert reconcile_all(cast.organisation).differences == []


def test_the_tax_of_a_customer_over_the_api(cast: Cast, as_user: AsUser) -> None:
    client, place = as_user(cast.admin), f"/api/v1/customers/{cast.organisation.pk}/tax"
    assert client.get(place).json() == {"scheme": "standard", "rate": "0", "payment_days": 14, "tax_id": ""}
    good = {"scheme": "standard", "rate": "0.075", "payment_days": 30}
    assert client.put(place, good, content_type="application/json").json() == {**good, "tax_id": ""}
    for wrong in (
        {"rate": "1"},
        {"rate": "-0.1"},
        {"rate": "0.00001"},
        {"rate": "NaN"},
        {"scheme": "exempt"},
        {"scheme": "none"},
        {"scheme": "reverse_charge", "rate": "0"},
        {"payment_days": 366},
        {"payment_days": "soon"},
    ):
        answer = client.put(place, {**good, **wrong}, content_type="application/json")
        assert answer.status_code == 422, wrong
    assert BillingProfile.objects.get().tax_rate == Decimal("0.075")
    assert client.get(f"/api/v1/customers/{uuid4()}/tax").status_code == 404
