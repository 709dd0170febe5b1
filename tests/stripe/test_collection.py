"""From an issued invoice to money in the books, with real HTTP between us and the double."""

from __future__ import annotations

import hashlib
import hmac
import json
import random
import time
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import stripe
from django.db import DatabaseError, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import Settings as SettingsWrapper

from apps.billing.models import Invoice, PushState, StripeEvent, StripeFact, StripePush
from apps.billing.selectors import reconcile_all
from apps.billing.services import invoice_issue, invoice_mark_paid
from apps.billing.stripe import gateway
from apps.billing.stripe.collecting import pushes_tend
from apps.billing.stripe.customers import client_of_settings
from apps.billing.stripe.events import event_handle, event_keep, events_catch_up
from apps.ledger.selectors import balances
from tests.cast import Cast
from tests.ledger.money import balance
from tests.sales.tenancy import a_contract_of
from tests.sales.test_contracts import run
from tests.stripe.double.server import running
from tests.stripe.double.store import Fault, Store

pytestmark = pytest.mark.django_db
MILLION = 10**6  # executions of the market's program cost 5.632 EUR
SECRET = "whsec_double"


@pytest.fixture
def store(settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(gateway, "PAUSES", (0.0,) * 4)
    store = Store()
    with running(store) as url:
        settings.STRIPE_API_KEY, settings.STRIPE_API_BASE = "sk_test_double", url
        settings.STRIPE_WEBHOOK_SECRET = SECRET
        yield store
    assert store.unfit == []


@pytest.fixture
def client(store: Store) -> stripe.StripeClient:
    return client_of_settings()


def _issued(cast: Cast) -> Invoice:
    run(a_contract_of(cast, executions=MILLION), MILLION, now=timezone.now())
    return invoice_issue(organisation=cast.organisation, actor=cast.billing, now=timezone.now())


def _pushed(cast: Cast, client: stripe.StripeClient) -> StripePush:
    invoice = _issued(cast)
    assert invoice.provider == "stripe"
    assert pushes_tend(client=client, now=timezone.now()) == 1
    return StripePush.objects.get(invoice=invoice)


def _pay(client: stripe.StripeClient, push: StripePush, card: str = "pm_card_visa") -> None:
    customer = push.invoice.organisation.stripe_customer.customer_id
    method = client.v1.payment_methods.attach(card, {"customer": customer})
    client.v1.invoices.pay(push.stripe_id, {"payment_method": method.id})


def _equal(cast: Cast, store: Store) -> None:
    """Stripe's sums and ours, and our own reconciliation."""
    ours = {kind: [fact.amount for fact in StripeFact.objects.filter(kind=kind)] for kind in ("paid", "refunded")}
    payments = [one for one in store.all("invoice_payment") if one["status"] == "paid"]
    assert sorted(ours["paid"]) == sorted(Decimal(one["amount_paid"]) / 100 for one in payments)
    assert sorted(ours["refunded"]) == sorted(Decimal(one["amount"]) / 100 for one in store.all("refund"))
    books = balances(cast.organisation.id)
    assert balance(books, "bank") == sum(ours["paid"], Decimal(0)) - sum(ours["refunded"], Decimal(0))
    assert reconcile_all(cast.organisation).differences == []


def test_an_issued_invoice_is_brought_paid_and_given_back(
    cast: Cast, store: Store, client: stripe.StripeClient
) -> None:
    push = _pushed(cast, client)
    (there,) = store.all("invoice")
    assert (there["total"], there["status"], push.state) == (563, "open", PushState.OPEN)
    _pay(client, push)
    events_catch_up(client=client, now=timezone.now())
    invoice = Invoice.objects.get()
    assert (invoice.state, invoice.open) == ("paid", 0)
    intent = StripeFact.objects.get(kind="paid").reference
    client.v1.refunds.create({"payment_intent": intent, "amount": 100})
    events_catch_up(client=client, now=timezone.now())
    _equal(cast, store)
    assert balance(balances(cast.organisation.id), "refund") == Decimal("1.00")


def test_a_declined_card_makes_the_invoice_overdue_once(cast: Cast, store: Store, client: stripe.StripeClient) -> None:
    push = _pushed(cast, client)
    with pytest.raises(stripe.CardError):
        _pay(client, push, "pm_card_chargeCustomerFail")
    for _ in range(2):
        events_catch_up(client=client, now=timezone.now())
    assert Invoice.objects.get().state == "overdue"
    assert StripeFact.objects.get().kind == "failed"
    _pay(client, push)
    events_catch_up(client=client, now=timezone.now())
    assert Invoice.objects.get().state == "paid"
    _equal(cast, store)


@pytest.mark.parametrize("seed", range(4))
def test_events_twice_late_and_out_of_order_change_nothing(
    cast: Cast, store: Store, client: stripe.StripeClient, seed: int
) -> None:
    push, now = _pushed(cast, client), timezone.now()
    with pytest.raises(stripe.CardError):
        _pay(client, push, "pm_card_chargeCustomerFail")
    _pay(client, push)
    intent = client.v1.invoice_payments.list({"status": "paid"}).data[0].payment.payment_intent
    client.v1.refunds.create({"payment_intent": intent, "amount": 63})
    events = [dict(one) for one in store.events] * 2
    random.Random(seed).shuffle(events)
    store.faults = [Fault("GET", "/v1/invoices/*", "500", 2), Fault("GET", "/v1/refunds/*", "timeout-after", 1)]
    for event in events:
        event_keep(event, now=now)
        event_handle(event_id=event["id"], client=client, now=now)
    events_catch_up(client=client, now=now)
    assert not StripeEvent.objects.filter(handled_at=None).exists()
    for event in events:
        assert event_handle(event_id=event["id"], client=client, now=now, again=True)
    assert Invoice.objects.get().state == "paid"
    _equal(cast, store)


@pytest.mark.parametrize(
    ("evidence", "ends"), [("winning_evidence", ("5.63", "0", "0")), ("losing_evidence", ("0", "0", "5.63"))]
)
def test_a_dispute_withdraws_the_money_until_it_is_decided(
    cast: Cast, store: Store, client: stripe.StripeClient, evidence: str, ends: tuple[str, str, str]
) -> None:
    def books() -> list[Decimal]:
        events_catch_up(client=client, now=timezone.now())
        found = balances(cast.organisation.id)
        return [balance(found, kind) for kind in ("bank", "disputed", "bad_debt")]

    _pay(client, _pushed(cast, client), "pm_card_createDispute")
    assert books() == [0, Decimal("5.63"), 0]
    (dispute,) = store.all("dispute")
    client.v1.disputes.update(dispute["id"], {"evidence": {"uncategorized_text": evidence}, "submit": True})
    assert books() == books() == [Decimal(one) for one in ends]
    assert reconcile_all(cast.organisation).differences == []


def test_money_that_comes_twice_is_the_customers_balance(cast: Cast, store: Store, client: stripe.StripeClient) -> None:
    push = _pushed(cast, client)
    invoice_mark_paid(
        invoice_id=push.pk, amount=push.invoice.open, reference="7/11", actor=cast.admin, now=timezone.now()
    )
    _pay(client, push)
    events_catch_up(client=client, now=timezone.now())
    books = balances(cast.organisation.id)
    assert (balance(books, "prepaid"), balance(books, "bank")) == (Decimal("-5.63"), Decimal("11.26"))


def test_an_outage_leaves_it_waiting_and_a_forgotten_key_is_not_trusted(
    cast: Cast, store: Store, client: stripe.StripeClient
) -> None:
    _issued(cast)
    store.faults = [Fault("POST", "/v1/invoices/*/finalize", "500", 1)]
    assert pushes_tend(client=client, now=timezone.now()) == 0
    waiting = StripePush.objects.get()
    assert (waiting.state, waiting.version) == (PushState.WAITING, 2)
    store.offset = 30 * 3600
    assert pushes_tend(client=client, now=timezone.now() + timedelta(hours=30)) == 1
    assert (len(store.all("invoice")), StripePush.objects.get().version) == (1, 3)


def test_another_total_at_stripe_waits_for_people(cast: Cast, store: Store, client: stripe.StripeClient) -> None:
    _issued(cast)
    store.faults = [Fault("POST", "/v1/invoices/*/finalize", "500", 1)]
    pushes_tend(client=client, now=timezone.now())
    (draft,) = store.all("invoice")
    client.v1.invoice_items.create(
        {"customer": draft["customer"], "invoice": draft["id"], "amount": 1, "currency": "eur"}
    )
    assert pushes_tend(client=client, now=timezone.now()) == 0
    push = StripePush.objects.get()
    assert push.state == PushState.MISMATCH
    assert "is 563 EUR" in push.error
    assert draft["status"] == "draft"


def _post(event: dict[str, Any], *, secret: str = SECRET, at: int | None = None) -> int:
    body, stamp = json.dumps(event), at or int(time.time())
    signed = hmac.new(secret.encode(), f"{stamp}.{body}".encode(), hashlib.sha256).hexdigest()
    answer = Client().post(
        "/stripe/webhook", body, content_type="application/json", headers={"stripe-signature": f"t={stamp},v1={signed}"}
    )
    return answer.status_code


def test_only_what_stripe_signed_is_kept_and_only_once(cast: Cast, store: Store, client: stripe.StripeClient) -> None:
    client.v1.customers.create({"name": "A"})
    (event,) = store.events
    assert _post(event, secret="whsec_other") == 400
    assert _post(event, at=int(time.time()) - 3600) == 400
    assert not StripeEvent.objects.exists()
    assert (_post(event), _post(event)) == (200, 200)
    assert StripeEvent.objects.get().id == event["id"]


def test_facts_are_only_added(cast: Cast, store: Store, client: stripe.StripeClient) -> None:
    _pay(client, _pushed(cast, client))
    events_catch_up(client=client, now=timezone.now())
    for change in (lambda: StripeFact.objects.update(amount=1), lambda: StripeFact.objects.all().delete()):
        with pytest.raises(DatabaseError, match="append"), transaction.atomic():
            change()


def test_without_a_key_invoices_are_paid_by_bank_transfer(cast: Cast) -> None:
    assert _issued(cast).provider == "bank-transfer"
