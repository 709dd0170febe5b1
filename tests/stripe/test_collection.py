"""From an issued invoice to money in the books, with real HTTP between us and Stripe (the double, or the test mode)."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import stripe
from django.db import DatabaseError, transaction
from django.test import Client
from django.utils import timezone
from pytest_django import Settings as SettingsWrapper

from apps.collection.customers import customer_ensure
from apps.collection.events import event_handle, event_keep, events_catch_up
from apps.collection.gateway import OutcomeUnknown
from apps.collection.models import PushState, StripeCustomer, StripeEvent, StripePush
from apps.collection.push import push_due
from apps.invoicing.models import BillingProfile, Invoice, StripeFact
from apps.invoicing.services import invoice_mark_paid
from apps.ledger.models import OutboxRow
from tests.cast import Cast
from tests.stripe.conftest import SECRET
from tests.stripe.double.delivering import signature
from tests.stripe.double.hosted import served
from tests.stripe.double.store import Fault, Store
from tests.stripe.sold import all_equal, books, issued, pay, pushed

pytestmark = pytest.mark.django_db
Until = Callable[[Callable[[], object]], None]


def test_an_issued_invoice_is_brought_paid_and_given_back(
    cast: Cast, client: stripe.StripeClient, caught_up: Until
) -> None:
    push = pushed(cast, client)
    there = client.v1.invoices.retrieve(push.stripe_id)
    assert (there.total, there.status, push.state) == (563, "open", PushState.OPEN)
    pay(client, push)
    caught_up(lambda: Invoice.objects.get().state == "paid")
    assert Invoice.objects.get().open == 0
    intent = StripeFact.objects.get(kind="paid").reference
    client.v1.refunds.create({"payment_intent": intent, "amount": 100})
    caught_up(lambda: StripeFact.objects.filter(kind="refunded").exists())
    all_equal(cast, client)
    assert books(cast, "bank", "refund") == [Decimal("4.63"), Decimal("1.00")]


def test_a_declined_card_makes_the_invoice_overdue_once(
    cast: Cast, client: stripe.StripeClient, caught_up: Until
) -> None:
    push = pushed(cast, client)
    with pytest.raises(stripe.CardError):
        pay(client, push, "pm_card_chargeCustomerFail")
    for _ in range(2):
        caught_up(lambda: Invoice.objects.get().state == "overdue")
    assert StripeFact.objects.get().kind == "failed"
    pay(client, push)
    caught_up(lambda: Invoice.objects.get().state == "paid")
    all_equal(cast, client)


def test_a_card_that_declines_on_the_payment_page_makes_the_invoice_overdue_too(
    cast: Cast, store: Store, client: stripe.StripeClient, caught_up: Until
) -> None:
    push = pushed(cast, client)
    served(store, "POST", urlsplit(push.hosted_url).path, urlencode({"card": "4000 0000 0000 0002"}))
    caught_up(lambda: Invoice.objects.get().state == "overdue")
    assert StripeFact.objects.get().kind == "failed"
    assert OutboxRow.objects.filter(topic="invoice.payment_failed").count() == 1
    all_equal(cast, client)


def test_a_customer_is_known_there_by_the_address_of_who_pays(
    cast: Cast, store: Store, client: stripe.StripeClient
) -> None:
    pushed(cast, client)
    (there,) = store.all("customer")
    assert there["email"] == cast.billing.email
    cast.billing.email = "accounts@example.com"
    cast.billing.save()
    for _ in range(2):
        customer_ensure(client=client, organisation=cast.organisation, now=timezone.now())
    assert there["email"] == "accounts@example.com"
    assert [one["type"] for one in store.events].count("customer.updated") == 2
    nobody = client.v1.customers.create({"name": "A"}).id
    with pytest.raises(stripe.InvalidRequestError, match="Missing email"):
        client.v1.invoices.create({"customer": nobody, "collection_method": "send_invoice", "days_until_due": 1})


def test_what_is_due_at_once_is_brought(cast: Cast, client: stripe.StripeClient) -> None:
    BillingProfile.objects.create(organisation=cast.organisation, payment_days=0)
    assert pushed(cast, client).state == PushState.OPEN


OUTAGES = [
    ("POST", "/v1/customers"),
    ("POST", "/v1/invoices"),
    ("POST", "/v1/invoiceitems"),
    ("POST", "/v1/invoices/*/finalize"),
    ("GET", "/v1/invoices*"),
    ("GET", "/v1/invoice_payments"),
    ("GET", "/v1/refunds/*"),
    ("GET", "/v1/events"),
    ("POST", "/v1/customers/*"),
]


def _through(work: Callable[[], object]) -> None:
    """The scheduler's next turns, until it comes through."""
    for _ in range(40):
        with suppress(OutcomeUnknown):
            if work():
                return
    raise AssertionError("it never came through")


@pytest.mark.parametrize("seed", range(3))
def test_events_twice_late_and_out_of_order_and_outages_change_nothing(
    cast: Cast, store: Store, client: stripe.StripeClient, seed: int
) -> None:
    chosen, now = random.Random(seed), timezone.now()

    def outages() -> None:
        kinds = ("429", "500", "500-after", "timeout-after")
        store.faults = [Fault(*chosen.choice(OUTAGES), chosen.choice(kinds), chosen.randint(1, 6)) for _ in range(5)]

    issued(cast)
    outages()
    _through(lambda: push_due(client=client, now=now) or StripePush.objects.filter(state="open").exists())
    store.faults, push = [], StripePush.objects.get()
    with pytest.raises(stripe.CardError):
        pay(client, push, "pm_card_chargeCustomerFail")
    pay(client, push)
    intent = client.v1.invoice_payments.list({"status": "paid"}).data[0].payment.payment_intent
    client.v1.refunds.create({"payment_intent": str(intent), "amount": 63})
    events = [dict(one) for one in store.events] * 2
    chosen.shuffle(events)
    outages()
    for event in events:
        event_keep(event, now=now)
        event_handle(event_id=event["id"], client=client, now=now)
    open_events = StripeEvent.objects.filter(handled_at=None)
    _through(lambda: events_catch_up(client=client, now=now) + (not open_events.exists()))
    store.faults = []
    events_catch_up(client=client, now=now)
    assert not StripeEvent.objects.filter(handled_at=None).exists()
    for event in events:
        assert event_handle(event_id=event["id"], client=client, now=now, again=True)
    assert Invoice.objects.get().state == "paid"
    all_equal(cast, client)


@pytest.mark.parametrize(
    ("evidence", "outcome", "ends"),
    [("winning_evidence", "won", ("5.63", "0", "0")), ("losing_evidence", "lost", ("0", "0", "5.63"))],
)
def test_a_dispute_withdraws_the_money_until_it_is_decided(
    cast: Cast, client: stripe.StripeClient, caught_up: Until, evidence: str, outcome: str, ends: tuple[str, str, str]
) -> None:
    pay(client, pushed(cast, client), "pm_card_createDispute")
    caught_up(lambda: Invoice.objects.get().dispute == "open")
    assert books(cast, "bank", "disputed", "bad_debt") == [0, Decimal("5.63"), 0]
    all_equal(cast, client)
    dispute = StripeFact.objects.get(kind="disputed").reference
    client.v1.disputes.update(dispute, {"evidence": {"uncategorized_text": evidence}, "submit": True})
    caught_up(lambda: Invoice.objects.get().dispute == outcome)
    caught_up(lambda: True)
    assert books(cast, "bank", "disputed", "bad_debt") == [Decimal(one) for one in ends]
    all_equal(cast, client)


def test_money_that_comes_twice_is_the_customers_balance(
    cast: Cast, client: stripe.StripeClient, caught_up: Until
) -> None:
    push = pushed(cast, client)
    invoice_mark_paid(
        invoice_id=push.pk, amount=push.invoice.open, reference="7/11", actor=cast.admin, now=timezone.now()
    )
    pay(client, push)
    caught_up(StripeFact.objects.exists)
    assert books(cast, "prepaid", "bank") == [Decimal("-5.63"), Decimal("11.26")]


def test_an_outage_leaves_it_waiting_and_a_forgotten_key_is_not_trusted(
    cast: Cast, store: Store, client: stripe.StripeClient
) -> None:
    issued(cast)
    store.faults = [Fault("POST", "/v1/invoices/*/finalize", "500", 1)]
    assert push_due(client=client, now=timezone.now()) == 0
    waiting = StripePush.objects.get()
    assert (waiting.state, waiting.version) == (PushState.WAITING, 2)
    store.offset = 30 * 3600
    assert push_due(client=client, now=timezone.now() + timedelta(hours=30)) == 1
    assert (len(store.all("invoice")), StripePush.objects.get().version) == (1, 3)


def test_another_total_at_stripe_waits_for_people(cast: Cast, store: Store, client: stripe.StripeClient) -> None:
    issued(cast)
    store.faults = [Fault("POST", "/v1/invoices/*/finalize", "500", 1)]
    push_due(client=client, now=timezone.now())
    (draft,) = store.all("invoice")
    client.v1.invoice_items.create(
        {"customer": draft["customer"], "invoice": draft["id"], "amount": 1, "currency": "eur"}
    )
    assert push_due(client=client, now=timezone.now()) == 0
    push = StripePush.objects.get()
    assert push.state == PushState.MISMATCH
    assert "is 5.63 EUR" in push.error
    assert draft["status"] == "draft"


def _post(event: dict[str, Any], *, secret: str = SECRET, at: int | None = None) -> int:
    body = json.dumps(event)
    signed = signature(body, secret=secret, at=at or int(time.time()))
    answer = Client().post(
        "/stripe/webhook", body, content_type="application/json", headers={"stripe-signature": signed}
    )
    return answer.status_code


def test_only_what_stripe_signed_is_kept_and_only_once(
    cast: Cast, store: Store, client: stripe.StripeClient, settings: SettingsWrapper
) -> None:
    client.v1.customers.create({"name": "A"})
    (event,) = store.events
    assert _post(event, secret="whsec_other") == 400
    assert _post(event, at=int(time.time()) - 3600) == 400
    settings.STRIPE_WEBHOOK_SECRET = ""
    assert _post(event, secret="") == 400  # anybody could
    settings.STRIPE_WEBHOOK_SECRET = SECRET
    assert not StripeEvent.objects.exists()
    assert (_post(event), _post(event)) == (200, 200)
    assert StripeEvent.objects.get().id == event["id"]


def test_facts_are_only_added(cast: Cast, store: Store, client: stripe.StripeClient) -> None:
    pay(client, pushed(cast, client))
    events_catch_up(client=client, now=timezone.now())
    for change in (lambda: StripeFact.objects.update(amount=1), lambda: StripeFact.objects.all().delete()):
        with pytest.raises(DatabaseError, match="append"), transaction.atomic():
            change()


def test_without_a_key_invoices_are_paid_by_bank_transfer(cast: Cast) -> None:
    assert issued(cast).provider == "bank-transfer"


def test_a_delivery_after_a_gap_does_not_hide_the_gap(cast: Cast, store: Store, client: stripe.StripeClient) -> None:
    """Three hours in which nothing was delivered and nothing listed, then a delivery: the list begins before the gap."""
    push, now = pushed(cast, client), timezone.now()
    StripeCustomer.objects.update(created_at=now)
    pay(client, push)
    store.offset = 3 * 3600
    client.v1.customers.update(store.all("customer")[0]["id"], {"name": "New"})
    event_keep(store.events[-1], now=now + timedelta(hours=3))
    events_catch_up(client=client, now=now + timedelta(hours=3))
    assert Invoice.objects.get().state == "paid"


def test_an_event_that_outruns_its_push_is_handled_at_once(
    cast: Cast, store: Store, client: stripe.StripeClient
) -> None:
    """Stripe says by the invoice's metadata whose it is, so that nobody waits for a push that may never go on."""
    push = pushed(cast, client)
    pay(client, push)
    StripePush.objects.filter(pk=push.pk).update(state=PushState.WAITING, stripe_id="")  # as if we had died just then
    events_catch_up(client=client, now=timezone.now())
    assert not StripeEvent.objects.filter(handled_at=None).exists()
    assert Invoice.objects.get().state == "paid"
    assert StripePush.objects.get().stripe_id == push.stripe_id
    assert push_due(client=client, now=timezone.now()) == 0
    all_equal(cast, client)
