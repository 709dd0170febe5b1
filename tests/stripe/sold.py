"""Invoices to collect, and what the tests look at afterwards."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal

import stripe
from django.db.models import Sum
from django.utils import timezone

from apps.collection.models import StripePush
from apps.collection.push import push_due
from apps.collection.reconciliation import stripe_reconcile
from apps.invoicing.models import Invoice, StripeFact
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import invoice_issue
from apps.ledger.selectors import balances
from tests.cast import Cast
from tests.ledger.money import balance
from tests.sales.tenancy import a_contract_of
from tests.sales.test_contracts import run

MILLION = 10**6  # executions of the market's program cost 5.632 EUR


def issued(cast: Cast) -> Invoice:
    """An invoice about 5.63 EUR."""
    run(a_contract_of(cast, executions=MILLION), MILLION, now=timezone.now())
    return invoice_issue(organisation=cast.organisation, actor=cast.billing, now=timezone.now())


def pushed(cast: Cast, client: stripe.StripeClient) -> StripePush:
    """Such an invoice, at Stripe."""
    invoice = issued(cast)
    assert invoice.provider == "stripe"
    assert push_due(client=client, now=timezone.now()) == 1
    return StripePush.objects.get(invoice=invoice)


def pay(client: stripe.StripeClient, push: StripePush, card: str = "pm_card_visa") -> None:
    """Pay it with a card."""
    customer = push.invoice.organisation.stripe_customer.customer_id
    method = client.v1.payment_methods.attach(card, {"customer": customer})
    client.v1.invoices.pay(push.stripe_id, {"payment_method": method.id})


def books(cast: Cast, *kinds: str) -> list[Decimal]:
    """The balances of these accounts."""
    found = balances(cast.organisation.id)
    return [balance(found, kind) for kind in kinds]


def all_equal(cast: Cast, client: stripe.StripeClient, *, elsewhere: str = "0") -> None:
    """Both sides' objects and sums, our own reconciliation, and the bank's account; `elsewhere` came by transfer."""
    found = stripe_reconcile(client=client)
    assert found.differences == []
    assert reconcile_all(cast.organisation).differences == []
    sums = defaultdict(Decimal, {row.what: Decimal(row.our_sum) for row in found.rows})
    won = StripeFact.objects.filter(kind="dispute_won").aggregate(sum=Sum("amount"))["sum"] or Decimal(0)
    there = sums["paid"] - sums["refunded"] - sums["disputed"] + won
    assert books(cast, "bank") == [there + Decimal(elsewhere)]
