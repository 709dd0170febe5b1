"""The pages that Stripe hosts, and its deliveries, as the double plays them."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode

import pytest
import stripe

from apps.collection.gateway import client_make
from tests.stripe.double.server import Serving, running
from tests.stripe.double.store import Store

SECRET = "whsec_double"


class Heard(ThreadingHTTPServer):
    """An endpoint that verifies and keeps; it refuses the first delivery."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.refusals = 1
        heard = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                stripe.Webhook.construct_event(body, self.headers["Stripe-Signature"], SECRET)
                status, heard.refusals = (500, 0) if heard.refusals else (200, 0)
                if status == 200:
                    heard.bodies.append(body)
                self.send_response(status)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
                """Quiet."""

        super().__init__(("127.0.0.1", 0), Handler)
        Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def kinds(self) -> list[str]:
        """The types that came, in their order."""
        return [json.loads(body)["type"] for body in self.bodies]


@pytest.fixture
def heard() -> Iterator[Heard]:
    server = Heard()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def serving(heard: Heard) -> Iterator[Serving]:
    store = Store()
    with running(store, webhook=f"http://127.0.0.1:{heard.server_port}/", secret=SECRET) as address:
        yield address
    assert store.unfit == []


def _post(url: str, **form: str) -> tuple[str, str]:
    """The page that comes, and where the browser would be sent."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *args: Any) -> None:
            """Nowhere."""

    try:
        with urllib.request.build_opener(Stay).open(url, urlencode(form).encode()) as answer:
            return answer.read().decode(), ""
    except HTTPError as moved:
        return "", moved.headers["Location"]


def test_checkout_keeps_a_card_and_the_portal_removes_it(serving: Serving, heard: Heard) -> None:
    client = client_make(api_key="sk_test_double", base=serving)
    customer = client.v1.customers.create({"name": "A"})
    session = client.v1.checkout.sessions.create(
        {
            "mode": "setup",
            "customer": customer.id,
            "currency": "eur",
            "cancel_url": "https://takt.example/back",
            "success_url": "https://takt.example/done?session={CHECKOUT_SESSION_ID}",
        }
    )
    page, _ = _post(str(session.url), card="4000 0000 0000 0002")
    assert "Your card was declined." in page
    _, place = _post(str(session.url), card="4242 4242 4242 4242")
    assert place == f"https://takt.example/done?session={session.id}"
    found = client.v1.checkout.sessions.retrieve(session.id)
    intent = client.v1.setup_intents.retrieve(str(found.setup_intent))
    assert (found.status, intent.status) == ("complete", "succeeded")
    portal = client.v1.billing_portal.sessions.create({"customer": customer.id, "return_url": "https://takt.example/"})
    page, _ = _post(portal.url, act="remove", method=str(intent.payment_method))
    assert "4242" not in page.split("Add card", 1)[0].split("<form", 1)[0]
    assert client.v1.customers.payment_methods.list(customer.id).data == []
    serving.delivered()
    assert heard.kinds() == [
        "customer.created",
        "setup_intent.created",
        "setup_intent.setup_failed",
        "payment_method.attached",
        "setup_intent.succeeded",
        "checkout.session.completed",
        "payment_method.detached",
    ]


def test_deliveries_come_twice_late_and_the_newest_first_when_told(serving: Serving, heard: Heard) -> None:
    client = client_make(api_key="sk_test_double", base=serving)
    _control(serving, delivery={"is_held": True})
    for name in "AB":
        client.v1.customers.create({"name": name})
    assert heard.bodies == []
    _control(serving, delivery={"copies": 2, "is_reversed": True, "delay": 0.01})
    serving.delivered()
    names = [json.loads(body)["data"]["object"]["name"] for body in heard.bodies]
    assert names == ["B", "B", "A", "A"]


def _control(serving: Serving, **wanted: Any) -> Any:
    with urllib.request.urlopen(f"{serving}/control", json.dumps(wanted).encode()) as answer:
        return json.load(answer)


def test_a_credit_note_leaves_less_to_pay_and_none_pays_twice(serving: Serving) -> None:
    client = client_make(api_key="sk_test_double", base=serving)
    customer = client.v1.customers.create({"name": "A"})
    invoice = client.v1.invoices.create({"customer": customer.id, "currency": "eur"})
    client.v1.invoice_items.create({"customer": customer.id, "invoice": invoice.id, "amount": 500, "currency": "eur"})
    invoice = client.v1.invoices.finalize_invoice(invoice.id)
    client.v1.credit_notes.create({"invoice": invoice.id, "amount": 200})
    page, _ = _post(str(invoice.hosted_invoice_url), card="4242424242424242")
    assert "State: <strong>paid" in page
    assert client.v1.invoices.retrieve(invoice.id).amount_paid == 300
    with pytest.raises(stripe.InvalidRequestError, match="out of band"):
        client.v1.credit_notes.create({"invoice": invoice.id, "amount": 100})
    client.v1.credit_notes.create({"invoice": invoice.id, "amount": 100, "out_of_band_amount": 100})
    with pytest.raises(stripe.InvalidRequestError, match="more than is left"):
        client.v1.credit_notes.create({"invoice": invoice.id, "amount": 201, "out_of_band_amount": 201})


def test_a_card_that_declines_at_once_is_an_attempt_that_failed(serving: Serving, heard: Heard) -> None:
    client = client_make(api_key="sk_test_double", base=serving)
    customer = client.v1.customers.create({"name": "A"})
    invoice = client.v1.invoices.create({"customer": customer.id, "currency": "eur"})
    client.v1.invoice_items.create({"customer": customer.id, "invoice": invoice.id, "amount": 500, "currency": "eur"})
    invoice = client.v1.invoices.finalize_invoice(invoice.id)
    for _ in range(2):
        page, _ = _post(str(invoice.hosted_invoice_url), card="4000 0000 0000 0002")
        assert "Your card was declined." in page
    found = client.v1.invoices.retrieve(invoice.id)
    assert (found.status, found.attempt_count, found.amount_remaining) == ("open", 1, 500)
    assert client.v1.customers.payment_methods.list(customer.id).data == []
    page, _ = _post(str(invoice.hosted_invoice_url), card="4242 4242 4242 4242")
    assert "State: <strong>paid" in page
    serving.delivered()
    failed = ["payment_intent.payment_failed", "invoice.payment_failed"]
    assert heard.kinds()[-7:] == [
        *failed,
        *failed,
        "payment_method.attached",
        "payment_intent.succeeded",
        "invoice.paid",
    ]


def test_a_meter_counts_an_event_once(serving: Serving) -> None:
    client = client_make(api_key="sk_test_double", base=serving)
    customer = client.v1.customers.create({"name": "A"})
    given: Any = {"event_name": "ops", "identifier": "u1", "payload": {"stripe_customer_id": customer.id, "value": "7"}}
    assert client.v1.billing.meter_events.create(given).identifier == "u1"
    with pytest.raises(stripe.InvalidRequestError, match="already exists"):
        client.v1.billing.meter_events.create(given)
