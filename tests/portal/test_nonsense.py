"""Nonsense in the forms of money: each ends in a sentence on the page, or in the right result; nothing is stored twice."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from uuid import uuid4

import pytest
from django.http import HttpResponse
from django.test import Client

from apps.accounts.models import Organisation, User
from apps.invoicing.models import BillingProfile, CreditGrant, CreditNote, Payment
from apps.invoicing.services.credit_lines import credit_lines
from apps.notifications.models import WebhookEndpoint
from tests.cast import Cast
from tests.invoicing.tenancy import an_invoice_of
from tests.sales.market import Market

pytestmark = pytest.mark.django_db
AsUser = Callable[[User], Client]
MILLION = 10**6
AMOUNTS = (
    "",
    "-5",
    "0",
    "1" + "0" * 17,
    "1" + "0" * 20,
    "abc",
    "NaN",
    "1e5",
    "💶",
    "9" * 10_000,
    "٣",
    "1,50",
    "0.001",
    "\x00",
)
TEXTS = ("", " ", "x" * 10_000, "\x00")
ADDRESSES = (
    "",
    "-5",
    "abc",
    "💶",
    "https://",
    "https://💶.example",
    "http://example.com",
    "javascript:alert(1)",
    "https://user:pass@example.com",
    "https://example.com:99999",
    "https://[::1",
    "https://127.0.0.1/",
    "https://example.com/ x",
    "https://example.com/" + "x" * 10_000,
)


def refused(response: HttpResponse, given: object) -> None:
    """The answer is the form again, with an error that can be read."""
    page = response.content.decode()
    assert response.status_code in {409, 422}, (given, response.status_code)
    assert re.search(r'(class="form-error"|role="alert").*?(<span>|<p[^>]*>)\s*[^<\s]', page, re.DOTALL), given


def test_a_webhook_needs_an_address_that_can_be_called(cast: Cast, market: Market, as_user: AsUser) -> None:
    client = as_user(cast.billing)
    for url in ADDRESSES:
        refused(client.post("/portal/webhooks", {"url": url, "topics": ["invoices"]}), url)
    refused(client.post("/portal/webhooks", {"url": "https://example.com/hook"}), "no events")
    refused(
        client.post("/portal/webhooks", {"url": "https://example.com/hook", "topics": ["nothing"]}), "no such event"
    )
    sent = {"url": "https://example.com/hook", "topics": ["invoices"]}
    assert "shown only once" in client.post("/portal/webhooks", sent).content.decode()
    refused(client.post("/portal/webhooks", sent), "twice")
    assert WebhookEndpoint.objects.count() == 1


def test_a_billing_address_takes_any_text_and_prints_it(cast: Cast, market: Market, as_user: AsUser) -> None:
    client = as_user(cast.billing)
    for name in ("legal_name", "address", "tax_id"):
        for text in ("x" * 10_000, "\x00"):
            refused(client.post("/portal/settings", {name: text}), (name, text[:9]))
    sent = {"legal_name": "Müller 💶 שלום", "address": "Weg 1\n٣ 東京", "tax_id": "DE1"}
    assert client.post("/portal/settings", sent).status_code == 302
    assert BillingProfile.objects.get().legal_name == sent["legal_name"]
    invoice = an_invoice_of(cast)
    assert client.get(f"/invoices/{invoice.pk}/invoice.pdf").content.startswith(b"%PDF")
    assert client.post("/portal/settings", {}).status_code == 302, "an empty address means the organisation's name"


def test_a_payment_needs_an_amount_and_a_reference(cast: Cast, as_user: AsUser) -> None:
    invoice, client = an_invoice_of(cast, executions=MILLION), as_user(cast.admin)
    sent = {"invoice": str(invoice.pk), "amount": "5.63", "reference": "7/11"}
    for amount in AMOUNTS:
        refused(client.post("/payments", {**sent, "amount": amount}), amount[:20])
    for reference in TEXTS:
        refused(client.post("/payments", {**sent, "reference": reference}), reference[:9])
    for pk in ("", "1", str(uuid4()), "\x00", "x" * 10_000):
        refused(client.post("/payments", {**sent, "invoice": pk}), pk[:9])
    for _ in range(2):
        assert client.post("/payments", sent).status_code == 302
    assert Payment.objects.get().amount == Decimal("5.63")


def test_a_credit_note_needs_amounts_above_0_and_is_issued_once(cast: Cast, as_user: AsUser) -> None:
    invoice, client = an_invoice_of(cast, executions=MILLION), as_user(cast.admin)
    place, sent = f"/customers/invoices/{invoice.pk}", {"form": "note", "line_1": "1.00", "reason": "late"}
    for amount in AMOUNTS[1:]:
        refused(client.post(place, {**sent, "line_1": amount}), amount[:20])
    for reason in TEXTS:
        refused(client.post(place, {**sent, "reason": reason}), reason[:9])
    left = re.search(r'name="left" value="([^"]+)"', client.get(place).content.decode())
    assert left is not None
    assert client.post(place, {**sent, "left": left[1]}).status_code == 302
    refused(client.post(place, {**sent, "left": left[1]}), "twice")
    assert CreditNote.objects.get().net == Decimal(1)
    assert [line.left for line in credit_lines(invoice)] == [Decimal("4.63")]
    for action in ("", "burn", "\x00", "x" * 10_000):
        refused(client.post(place, {"form": "end", "action": action, "reason": "x"}), action[:9])


def test_what_an_administrator_sets_of_a_customer_is_checked(cast: Cast, market: Market, as_user: AsUser) -> None:
    client, place = as_user(cast.admin), f"/customers/{cast.organisation.pk}"
    grant = {"form": "grant", "amount": "10", "reason": "Welcome"}
    for amount in AMOUNTS:
        refused(client.post(place, {**grant, "amount": amount, "key": str(uuid4())}), amount[:20])
    for reason in TEXTS:
        refused(client.post(place, {**grant, "reason": reason, "key": str(uuid4())}), reason[:9])
    for expires in ("abc", "2026-13-01", "0001-01-01", "9999-12-31", "💶"):
        refused(client.post(place, {**grant, "expires": expires, "key": str(uuid4())}), expires)
    assert not CreditGrant.objects.exists()
    tax = {"form": "tax", "tax_scheme": "standard", "tax_percent": "19", "payment_days": "30"}
    for percent in ("", "-5", "1" + "0" * 17, "abc", "💶", "9" * 10_000, "100", "1.234"):
        refused(client.post(place, {**tax, "tax_percent": percent}), percent[:20])
    for days in ("", "-5", "1" + "0" * 17, "abc", "💶", "1.5", "9" * 10_000):
        refused(client.post(place, {**tax, "payment_days": days}), days[:20])
    for credit in ("", "abc", str(uuid4()), "💶"):
        refused(client.post(place, {"form": "end", "credit": credit, "reason": "x"}), credit)
    refund = {"form": "refund", "amount": "1", "reference": "7/11"}
    for amount in AMOUNTS:
        refused(client.post(place, {**refund, "amount": amount, "key": str(uuid4())}), amount[:20])
    assert client.post(place, {"form": "nothing"}).status_code == 200


def test_only_the_exact_name_deletes_an_organisation(cast: Cast, market: Market, as_user: AsUser) -> None:
    client = as_user(cast.owner)
    for name in ("", "-5", "0", "abc", "💶", "x" * 10_000, cast.organisation.name.upper(), "\x00"):
        response = client.post("/settings/organisation/delete", {"name": name})
        assert response.status_code == 422, name[:9]
    assert Organisation.objects.filter(pk=cast.organisation.pk, memberships__isnull=False).exists()
