"""What happens to an invoice elsewhere is brought to Stripe: credit notes, transfers, debts given up; cards on file."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
import stripe
from django.utils import timezone

from apps.accounts.problems import Problem
from apps.collection.cards import customer_sync
from apps.collection.catalogue import EVENTS
from apps.collection.customers import client_of_settings, customer_ensure
from apps.collection.events import events_catch_up
from apps.collection.metering import usage_mirror
from apps.collection.models import StripeCheck, StripeCustomer, StripePush
from apps.collection.push import push_due
from apps.collection.push_changes import changes_push_due
from apps.collection.reconciliation import check_run
from apps.invoicing.models import Invoice, StripeFact
from apps.invoicing.outbox import handlers_known, outbox_deliver
from apps.invoicing.services import (
    balance_refund,
    credit_note_issue,
    invoice_mark_paid,
    invoice_void,
    invoice_write_off,
)
from apps.ledger.models import OutboxRow
from tests.cast import Cast
from tests.stripe.double.description import description
from tests.stripe.double.payments import refund_fail
from tests.stripe.double.store import Fault, Store
from tests.stripe.sold import all_equal, books, issued, pay, pushed

pytestmark = pytest.mark.django_db
Until = Callable[[Callable[[], object]], None]


def _told() -> None:
    """What the scheduler does a little later."""
    outbox_deliver(now=timezone.now(), handlers=[one for one in handlers_known() if one.name.startswith("stripe")])
    changes_push_due(client=client_of_settings(), now=timezone.now())


def _ends(cast: Cast, push: StripePush, how: str) -> None:
    given: dict[str, Any] = {"invoice_id": push.pk, "actor": cast.admin, "now": timezone.now()}
    if how == "paid":
        invoice_mark_paid(**given, amount=push.invoice.open, reference="7/11")
    else:
        {"void": invoice_void, "uncollectible": invoice_write_off}[how](**given, reason="so agreed")


def test_what_could_not_be_closed_in_an_outage_is_closed_later(
    cast: Cast, store: Store, client: stripe.StripeClient
) -> None:
    push, now = pushed(cast, client), timezone.now()
    _ends(cast, push, "paid")
    store.faults = [Fault("POST", "/v1/invoices/*/pay", "500-after", 1), Fault("GET", "/v1/invoices/*", "500", 1)]
    assert (changes_push_due(client=client, now=now), changes_push_due(client=client, now=now)) == (0, 0)
    assert changes_push_due(client=client, now=now) == 1
    assert StripePush.objects.get().state == "paid"
    all_equal(cast, client, elsewhere="5.63")


@pytest.mark.parametrize("how", ["paid", "void", "uncollectible"])
def test_what_ends_here_ends_at_stripe(cast: Cast, client: stripe.StripeClient, how: str) -> None:
    push = pushed(cast, client)
    _ends(cast, push, how)
    for _ in range(2):
        _told()
    assert client.v1.invoices.retrieve(push.stripe_id).status == how
    assert StripePush.objects.get().state == how
    assert not StripeFact.objects.exists()
    all_equal(cast, client, elsewhere="5.63" if how == "paid" else "0")


def test_parts_that_are_settled_elsewhere_leave_less_to_pay(
    cast: Cast, client: stripe.StripeClient, caught_up: Until
) -> None:
    push, now = pushed(cast, client), timezone.now()
    invoice_mark_paid(invoice_id=push.pk, amount=Decimal("2.00"), reference="7/11", actor=cast.admin, now=now)
    credit_note_issue(invoice_id=push.pk, parts={1: Decimal("1.00")}, reason="late", actor=cast.admin, now=now)
    for _ in range(2):
        _told()
    assert client.v1.invoices.retrieve(push.stripe_id).amount_remaining == 263
    all_equal(cast, client, elsewhere="2.00")
    pay(client, push)
    caught_up(lambda: Invoice.objects.get().state == "paid")
    credit_note_issue(invoice_id=push.pk, parts={1: Decimal("0.50")}, reason="late", actor=cast.admin, now=now)
    for _ in range(2):
        _told()
    assert sorted(one.amount for one in client.v1.credit_notes.list({"invoice": push.stripe_id}).data) == [50, 100, 200]
    assert books(cast, "bank", "prepaid") == [Decimal("4.63"), Decimal("-0.50")]
    all_equal(cast, client, elsewhere="2.00")


def test_a_balance_is_given_back_once_and_never_more_than_it_is(
    cast: Cast, client: stripe.StripeClient, caught_up: Until
) -> None:
    push, now = pushed(cast, client), timezone.now()
    pay(client, push)
    caught_up(lambda: Invoice.objects.get().state == "paid")
    credit_note_issue(invoice_id=push.pk, parts={1: Decimal("1.00")}, reason="late", actor=cast.admin, now=now)
    given: Any = {"payment_intent": StripeFact.objects.get().reference, "metadata": {"takt_purpose": "balance"}}
    client.v1.refunds.create({**given, "amount": 60})
    caught_up(lambda: StripeFact.objects.filter(kind="refunded").exists())
    assert books(cast, "prepaid", "refund") == [Decimal("-0.40"), 0]
    credit_note_issue(invoice_id=push.pk, parts={1: Decimal("0.40")}, reason="late", actor=cast.admin, now=now)
    client.v1.refunds.create({**given, "amount": 103})  # more than is left: the rest at our cost
    caught_up(lambda: StripeFact.objects.filter(kind="refunded").count() == 2)
    assert books(cast, "prepaid", "refund") == [0, Decimal("0.23")]
    credit_note_issue(invoice_id=push.pk, parts={1: Decimal("0.63")}, reason="late", actor=cast.admin, now=now)
    assert books(cast, "prepaid", "refund") == [Decimal("-0.40"), 0]  # a part of it is given back already
    all_equal(cast, client)
    shared: Any = {"organisation": cast.organisation, "currency": "EUR", "reference": "8/11", "actor": None, "now": now}
    for _ in range(2):
        balance_refund(**shared, amount=Decimal("0.40"), idempotency_key="a")
    assert books(cast, "prepaid") == [0]
    with pytest.raises(Problem, match=r"The balance is €\u202f0\.00\."):
        balance_refund(**shared, amount=Decimal("0.01"), idempotency_key="b")


def test_a_refund_that_comes_back_is_owed_to_the_customer(
    cast: Cast, store: Store, client: stripe.StripeClient
) -> None:
    pay(client, pushed(cast, client))
    events_catch_up(client=client, now=timezone.now())
    refund = client.v1.refunds.create({"payment_intent": StripeFact.objects.get().reference, "amount": 100})
    events_catch_up(client=client, now=timezone.now())
    refund_fail(store, store.get("refund", refund.id))
    for _ in range(2):
        events_catch_up(client=client, now=timezone.now())
    assert books(cast, "bank", "refund", "prepaid") == [Decimal("5.63"), Decimal("1.00"), Decimal("-1.00")]
    assert check_run(client=client, now=timezone.now()).differences == []


@pytest.mark.parametrize(
    ("card", "state", "kind"), [("pm_card_visa", "paid", "paid"), ("pm_card_chargeCustomerFail", "overdue", "failed")]
)
def test_a_card_on_file_is_charged_when_the_invoice_is_brought(
    cast: Cast, client: stripe.StripeClient, caught_up: Until, card: str, state: str, kind: str
) -> None:
    customer = customer_ensure(client=client, organisation=cast.organisation, now=timezone.now()).customer_id
    method = client.v1.payment_methods.attach(card, {"customer": customer})
    client.v1.customers.update(customer, {"invoice_settings": {"default_payment_method": method.id}})
    known = customer_sync(customer_id=customer, client=client)
    assert known is not None
    assert known.method_label.startswith("visa ending in")
    issued(cast)
    assert push_due(client=client, now=timezone.now()) == 1
    assert (Invoice.objects.get().state, StripeFact.objects.get().kind) == (state, kind)
    for _ in range(2):
        caught_up(lambda: True)
    assert StripeFact.objects.count() == 1
    all_equal(cast, client)


def test_a_customer_that_was_deleted_there_has_no_card(
    cast: Cast, client: stripe.StripeClient, caught_up: Until
) -> None:
    known = customer_ensure(client=client, organisation=cast.organisation, now=timezone.now())
    method = client.v1.payment_methods.attach("pm_card_visa", {"customer": known.customer_id})
    client.v1.customers.update(known.customer_id, {"invoice_settings": {"default_payment_method": method.id}})
    caught_up(lambda: StripeCustomer.objects.get().payment_method)
    client.v1.customers.delete(known.customer_id)
    caught_up(lambda: not StripeCustomer.objects.get().payment_method)


@pytest.mark.parametrize("kind", ["500-after", "timeout-after", "500"])
def test_a_lost_answer_charges_a_card_once(cast: Cast, store: Store, client: stripe.StripeClient, kind: str) -> None:
    customer = customer_ensure(client=client, organisation=cast.organisation, now=timezone.now()).customer_id
    method = client.v1.payment_methods.attach("pm_card_visa", {"customer": customer})
    client.v1.customers.update(customer, {"invoice_settings": {"default_payment_method": method.id}})
    customer_sync(customer_id=customer, client=client)
    issued(cast)
    store.faults = [Fault("POST", "/v1/invoices/*/pay", kind, 1)]
    assert push_due(client=client, now=timezone.now()) == 0
    assert push_due(client=client, now=timezone.now()) == 1
    assert len(store.all("payment_intent")) == 1
    assert Invoice.objects.get().state == "paid"
    all_equal(cast, client)


def test_every_event_that_matters_is_known_and_described() -> None:
    paths = description()["paths"]["/v1/webhook_endpoints"]["post"]["requestBody"]["content"]
    (body,) = paths.values()
    described = set(body["schema"]["properties"]["enabled_events"]["items"]["enum"])
    assert set(EVENTS) <= described


def test_a_difference_is_named_and_kept(cast: Cast, store: Store, client: stripe.StripeClient) -> None:
    push = pushed(cast, client)
    pay(client, push)
    found = check_run(client=client, now=timezone.now())
    assert found.differences == []
    store.get("invoice", push.stripe_id).update(status="open", amount_remaining=563)
    payment = store.all("invoice_payment")[0]
    payment["amount_paid"] = 562
    found = check_run(client=client, now=timezone.now())
    assert found.differences == [
        f"open, {push.stripe_id} of invoice {push.invoice.number}: nothing here, 5.63 at Stripe",
        f"paid, {payment['payment']['payment_intent']} of invoice {push.invoice.number}: 5.63 here, 5.62 at Stripe",
    ]
    assert StripeCheck.objects.count() == 2


def test_usage_is_mirrored_once_to_a_meter(
    cast: Cast, store: Store, client: stripe.StripeClient, settings: Any
) -> None:
    issued(cast)
    settings.STRIPE_METER = "operations"
    row = OutboxRow.objects.get(topic="ledger.usage")
    store.faults = [Fault("POST", "/v1/billing/meter_events", "timeout-after")]
    with pytest.raises(Exception, match="did not respond"):
        usage_mirror(row, now=timezone.now())
    usage_mirror(row, now=timezone.now())
    (event,) = store.meters.values()
    assert (event["event_name"], event["payload"]["value"]) == ("operations", str(704_000_000 * 10**6))
