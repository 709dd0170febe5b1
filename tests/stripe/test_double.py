"""The double answers Stripe's own client library, and it bites."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import stripe

from tests.stripe.double.answers import faults, made
from tests.stripe.double.description import schema_of, version
from tests.stripe.double.server import running
from tests.stripe.double.store import Fault, Store


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def client(store: Store) -> Iterator[stripe.StripeClient]:
    with running(store) as url:
        http = stripe.RequestsClient(timeout=5)
        yield stripe.StripeClient(
            "sk_test_double",
            base_addresses={"api": url},
            http_client=http,
            stripe_version=version(),
            max_network_retries=0,
        )
        http.close()
    assert store.unfit == []  # every answer fitted the description


def _draft(client: stripe.StripeClient, *amounts: int, card: str = "pm_card_visa") -> tuple[Any, Any]:
    customer = client.v1.customers.create({"email": "a@example.com", "metadata": {"takt": "1"}})
    method = client.v1.payment_methods.attach(card, {"customer": customer.id})
    client.v1.customers.update(customer.id, {"invoice_settings": {"default_payment_method": method.id}})
    invoice = client.v1.invoices.create({"customer": customer.id, "currency": "eur", "auto_advance": False})
    for amount in amounts:
        client.v1.invoice_items.create(
            {"customer": customer.id, "invoice": invoice.id, "amount": amount, "currency": "eur", "description": "line"}
        )
    return customer, client.v1.invoices.retrieve(invoice.id)


def test_an_invoice_goes_from_its_items_to_paid_and_back(client: stripe.StripeClient) -> None:
    _, invoice = _draft(client, 563, 107, -20)
    assert (invoice.status, invoice.total, len(invoice.lines.data)) == ("draft", 650, 3)
    assert client.v1.invoices.finalize_invoice(invoice.id).status == "open"
    paid = client.v1.invoices.pay(invoice.id)
    assert (paid.status, paid.amount_paid, paid.amount_remaining) == ("paid", 650, 0)
    (payment,) = client.v1.invoice_payments.list({"invoice": invoice.id}).data
    intent = payment.payment.payment_intent
    assert client.v1.refunds.create({"payment_intent": intent, "amount": 150}).amount == 150
    with pytest.raises(stripe.InvalidRequestError, match="greater than unrefunded"):
        client.v1.refunds.create({"payment_intent": intent, "amount": 501})
    kinds = [event.type for event in client.v1.events.list({"limit": 100}).auto_paging_iter()]
    assert kinds[:3] == ["refund.created", "invoice.paid", "payment_intent.succeeded"]


def test_a_declined_card_leaves_the_invoice_open_and_says_so(client: stripe.StripeClient) -> None:
    _, invoice = _draft(client, 100, card="pm_card_chargeCustomerFail")
    client.v1.invoices.finalize_invoice(invoice.id)
    with pytest.raises(stripe.CardError) as refusal:
        client.v1.invoices.pay(invoice.id)
    assert refusal.value.code == "card_declined"
    found = client.v1.invoices.retrieve(invoice.id)
    assert (found.status, found.attempt_count, found.amount_paid) == ("open", 1, 0)
    assert client.v1.events.list({"limit": 1}).data[0].type == "invoice.payment_failed"
    with pytest.raises(stripe.CardError):
        _draft(client, card="pm_card_chargeDeclined")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"currancy": "eur"}, "parameter_unknown"),
        ({"automatic_tax": {"enabled": True, "rate": 1}}, "parameter_unknown"),
        ({"automatic_tax": {"liability": {"type": "self"}}}, "parameter_missing"),
        ({"days_until_due": "soon"}, "parameter_invalid_integer"),
        ({"auto_advance": "maybe"}, "parameter_invalid_boolean"),
        ({"collection_method": "by_pigeon"}, "parameter_invalid_enum"),
        ({"metadata": {"k": "x" * 501}}, "parameter_invalid_string_too_long"),
        ({"customer": ["a"]}, "parameter_invalid_string"),
    ],
)
def test_what_is_not_described_is_refused(client: stripe.StripeClient, given: Any, code: str) -> None:
    with pytest.raises(stripe.InvalidRequestError) as refusal:
        client.v1.invoices.create(given)
    assert refusal.value.code == code


def test_a_key_repeats_what_was_answered_also_a_failure(client: stripe.StripeClient, store: Store) -> None:
    options: Any = {"idempotency_key": "k1"}
    first, again = (client.v1.customers.create({"name": "A"}, options) for _ in range(2))
    assert first.id == again.id
    with pytest.raises(stripe.IdempotencyError):
        client.v1.customers.create({"name": "B"}, options)
    store.faults.append(Fault("POST", "/v1/customers", "500"))
    for _ in range(2):  # the second is no outage any more, the key remembers it
        with pytest.raises(stripe.APIError):
            client.v1.customers.create({"name": "C"}, {"idempotency_key": "k2"})
    store.offset = 25 * 3600
    assert client.v1.customers.create({"name": "B"}, options).id != first.id


def test_an_outage_after_the_act_has_acted(client: stripe.StripeClient, store: Store) -> None:
    options: Any = {"idempotency_key": "k"}
    store.faults.append(Fault("POST", "/v1/customers", "timeout-after"))
    with pytest.raises(stripe.APIConnectionError):
        client.v1.customers.create({"name": "A"}, options)
    assert client.v1.customers.create({"name": "A"}, options).id == store.all("customer")[0]["id"]
    store.faults.append(Fault("POST", "/v1/customers", "429"))
    with pytest.raises(stripe.RateLimitError):
        client.v1.customers.create({"name": "D"}, {"idempotency_key": "d"})
    client.v1.customers.create({"name": "D"}, {"idempotency_key": "d"})
    assert len(store.all("customer")) == 2


def test_an_answer_that_does_not_fit_is_noticed() -> None:
    invoice = made("invoice", currency="eur", lines={"object": "list", "data": [], "has_more": False, "url": "/"})
    assert faults(schema_of("invoice"), invoice) == []
    for name, value in (("total", "1"), ("status", "settled"), ("paid", True), ("customer", None)):
        assert faults(schema_of("invoice"), {**invoice, name: value}), name
    del invoice["total"]
    assert faults(schema_of("invoice"), invoice) == ["answer.total is missing"]
