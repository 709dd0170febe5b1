"""Stripe acts and its answer is lost: nothing about the invoice changes before that is known, and nobody pays twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import stripe
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.collection.cards import customer_sync
from apps.collection.customers import customer_ensure
from apps.collection.events import events_catch_up
from apps.collection.gateway import client_make
from apps.collection.models import PushState, StripeCall, StripeCustomer, StripeEvent, StripePush
from apps.collection.push import push_due
from apps.collection.push_changes import changes_push_due
from apps.invoicing.models import Invoice, InvoiceState
from apps.invoicing.outbox import handlers_known, outbox_deliver
from apps.invoicing.services import credit_note_issue, invoice_mark_paid, invoice_void, invoice_write_off
from tests.cast import Cast
from tests.stripe.double.store import Fault, Store
from tests.stripe.sold import all_equal, books, issued, pushed

pytestmark = pytest.mark.django_db
DAY = timedelta(hours=25)
CHANGES: dict[str, Callable[[Cast, Invoice], object]] = {
    "void": lambda cast, invoice: invoice_void(**_given(cast, invoice), reason="so agreed"),
    "note": lambda cast, invoice: credit_note_issue(**_given(cast, invoice), reason="so agreed"),
    "write-off": lambda cast, invoice: invoice_write_off(**_given(cast, invoice), reason="so agreed"),
    "transfer": lambda cast, invoice: invoice_mark_paid(**_given(cast, invoice), amount=invoice.due, reference="7/11"),
}


def _given(cast: Cast, invoice: Invoice) -> dict[str, Any]:
    return {"invoice_id": invoice.pk, "actor": cast.admin, "now": timezone.now()}


def _card(cast: Cast, client: stripe.StripeClient) -> None:
    customer = customer_ensure(client=client, organisation=cast.organisation, now=timezone.now()).customer_id
    method = client.v1.payment_methods.attach("pm_card_visa", {"customer": customer})
    client.v1.customers.update(customer, {"invoice_settings": {"default_payment_method": method.id}})
    customer_sync(customer_id=customer, client=client)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", ["timeout-after", "500-after"])
def test_a_charge_whose_answer_is_lost_is_known_before_the_invoice_changes(
    cast: Cast, store: Store, client: stripe.StripeClient, change: str, kind: str
) -> None:
    _card(cast, client)
    invoice = issued(cast)
    store.faults = [Fault("POST", "/v1/invoices/*/pay", kind, 1)]
    assert push_due(client=client, now=timezone.now()) == 0
    assert len(store.all("charge")) == 1  # the card is charged, and nobody here knows
    with pytest.raises(Problem, match="Takt checks the outcome every minute") as refusal:
        CHANGES[change](cast, invoice)
    assert (refusal.value.status, refusal.value.kind, refusal.value.retry_after) == (409, "collection-unsettled", 60)
    assert Invoice.objects.get().state == InvoiceState.ISSUED
    push_due(client=client, now=timezone.now())
    assert Invoice.objects.get().state == InvoiceState.PAID
    if change != "note":  # a credit note over what is paid is the customer's balance
        with pytest.raises(Problem):
            CHANGES[change](cast, invoice)
        assert books(cast, "bank", "prepaid") == [Decimal("5.63"), 0]
    events_catch_up(client=client, now=timezone.now())
    assert not StripeEvent.objects.filter(handled_at=None).exists()
    all_equal(cast, client)


@pytest.mark.parametrize("change", CHANGES)
def test_an_invoice_that_is_settled_before_it_is_final_leaves_no_draft(
    cast: Cast, store: Store, client: stripe.StripeClient, change: str
) -> None:
    """The draft's answer is lost and its key forgotten: what is there is found by looking, and deleted."""
    invoice, now = issued(cast), timezone.now()
    store.faults = [Fault("POST", "/v1/invoices", "timeout-after", 1)]
    push_due(client=client, now=now)
    with pytest.raises(Problem):
        CHANGES[change](cast, invoice)
    store.offset = int(DAY.total_seconds())
    store.faults = [Fault("GET", "/v1/invoiceitems", "500", 1)]
    push_due(client=client, now=now + DAY)
    assert StripeCall.objects.get(operation="invoice.create").outcome == "acted"
    assert [one["status"] for one in store.all("invoice")] == ["draft"]
    CHANGES[change](cast, invoice)
    changes_push_due(client=client, now=now + DAY)
    assert store.all("invoice") == []
    assert StripePush.objects.get().state == PushState.DROPPED
    all_equal(cast, client, elsewhere="5.63" if change == "transfer" else "0")


def test_a_credit_note_before_the_invoice_is_brought_is_not_taken_off_twice(
    cast: Cast, store: Store, client: stripe.StripeClient
) -> None:
    invoice, now = issued(cast), timezone.now()
    credit_note_issue(**_given(cast, invoice), parts={1: Decimal("1.00")}, reason="late")
    push_due(client=client, now=now)
    StripePush.objects.update(tell_at=now)  # word of the note comes after the invoice was brought
    changes_push_due(client=client, now=now)
    (there,) = store.all("invoice")
    assert (there["total"], there["amount_remaining"], store.all("credit_note")) == (463, 463, [])
    all_equal(cast, client)


def test_parts_that_are_settled_while_it_is_brought_change_the_draft(
    cast: Cast, store: Store, client: stripe.StripeClient
) -> None:
    """The draft already says how much was settled; then more is: it is made anew, rather than left for people."""
    invoice, now = issued(cast), timezone.now()
    for amount in ("1.00", "0.50"):
        invoice_mark_paid(**_given(cast, invoice), amount=Decimal(amount), reference=f"transfer {amount}")
        store.faults = [Fault("POST", "/v1/invoices/*/finalize", "500", 1)]
        push_due(client=client, now=now)
        store.faults = []
        StripeCall.objects.filter(settled_at=None).update(settled_at=now, outcome="not_acted")
    push_due(client=client, now=now)
    assert push_due(client=client, now=now) + StripePush.objects.filter(state=PushState.OPEN).count() > 0
    (there,) = store.all("invoice")
    assert (there["status"], there["amount_remaining"]) == ("open", 413)
    all_equal(cast, client, elsewhere="1.50")


def test_a_debt_that_is_paid_by_transfer_after_all_is_not_asked_for_at_stripe(
    cast: Cast, client: stripe.StripeClient
) -> None:
    push, now = pushed(cast, client), timezone.now()
    for change in ("write-off", "transfer"):
        CHANGES[change](cast, push.invoice)
        StripePush.objects.update(tell_at=now)
        changes_push_due(client=client, now=now)
    assert client.v1.invoices.retrieve(push.stripe_id).status == "paid"
    all_equal(cast, client, elsewhere="5.63")


def test_a_key_that_is_refused_says_nothing_of_what_was_done(
    cast: Cast, store: Store, client: stripe.StripeClient
) -> None:
    _card(cast, client)
    issued(cast)
    store.faults = [Fault("POST", "/v1/invoices/*/pay", "timeout-after", 1)]
    push_due(client=client, now=timezone.now())
    revoked = client_make(api_key="rk_gone", base=store.base)
    push_due(client=revoked, now=timezone.now())
    assert StripeCall.objects.get(settled_at=None).operation == "invoice.pay"
    push_due(client=client, now=timezone.now())
    assert Invoice.objects.get().state == InvoiceState.PAID
    all_equal(cast, client)


def test_an_administrator_sees_calls_that_have_no_answer(
    cast: Cast, store: Store, client: stripe.StripeClient, as_user: Callable[[User], Client]
) -> None:
    invoice = issued(cast)
    store.faults = [Fault("POST", "/v1/invoices", "timeout-after", 1)]
    push_due(client=client, now=timezone.now())
    page = as_user(cast.admin).get("/stripe").content.decode()
    assert "Calls without a response" in page
    assert invoice.number in page
    assert "invoice.create" in page


@pytest.mark.parametrize("pause", [timedelta(minutes=2), DAY])
def test_a_customer_whose_answer_is_lost_is_known_though_nothing_is_collected_any_more(
    cast: Cast, store: Store, client: stripe.StripeClient, pause: timedelta
) -> None:
    """The invoice is paid by transfer before it is brought again, and nothing of it is at Stripe."""
    invoice = issued(cast)
    store.faults = [Fault("POST", "/v1/customers", "timeout-after", 1)]
    assert push_due(client=client, now=timezone.now()) == 0
    CHANGES["transfer"](cast, invoice)
    later = timezone.now() + pause
    push_due(client=client, now=later)
    changes_push_due(client=client, now=later)
    assert not StripeCall.objects.filter(settled_at=None).exists()
    assert [one.customer_id for one in StripeCustomer.objects.all()] == [one["id"] for one in store.all("customer")]
    all_equal(cast, client, elsewhere="5.63")


@pytest.mark.parametrize("pause", [timedelta(minutes=2), DAY])
def test_a_void_whose_answer_is_lost_is_settled_though_its_event_came_first(
    cast: Cast, store: Store, client: stripe.StripeClient, pause: timedelta
) -> None:
    invoice = pushed(cast, client).invoice
    CHANGES["void"](cast, invoice)
    outbox_deliver(now=timezone.now(), handlers=[one for one in handlers_known() if one.name.startswith("stripe")])
    store.faults = [Fault("POST", "/v1/invoices/*/void", "timeout-after", 1)]
    changes_push_due(client=client, now=timezone.now())
    events_catch_up(client=client, now=timezone.now())
    assert StripePush.objects.get().state == PushState.VOID
    changes_push_due(client=client, now=timezone.now() + pause)
    assert not StripeCall.objects.filter(settled_at=None).exists()
    all_equal(cast, client)
