"""An invoice reaches Stripe once and whole, whatever fails on the way."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import stripe
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.collection import gateway
from apps.collection.amounts import amount_of, minor_of
from apps.collection.gateway import KeyBroken, OutcomeUnknown, call_with_retry, client_make
from apps.collection.provider import Stripe
from apps.collection.push_steps import Item, Order, TotalDiffers, invoice_push
from tests.stripe.direct import direct_client
from tests.stripe.double.description import version
from tests.stripe.double.server import running
from tests.stripe.double.store import Fault, Store

STEPS = (
    ("POST", "/v1/invoices"),
    ("POST", "/v1/invoiceitems"),
    ("POST", "/v1/invoices/*/finalize"),
    ("GET", "/v1/invoices*"),
)
KINDS = ("429", "500", "500-after", "timeout-after")


def _order(client: stripe.StripeClient, *amounts: int) -> Order:
    customer = client.v1.customers.create({"email": "a@example.com"})
    items = tuple(Item(f"line {number}", amount) for number, amount in enumerate(amounts, 1))
    return Order(
        "5d6f", "T-2026-000001", customer.id, "EUR", datetime.now(UTC) + timedelta(days=14), sum(amounts), items
    )


def _until_done(client: stripe.StripeClient, order: Order) -> stripe.Invoice:
    for _ in range(40):
        try:
            return invoice_push(client, order)
        except KeyBroken:
            order = replace(order, version=order.version + 1)
        except OutcomeUnknown:
            continue
    raise AssertionError("it never came through")


@settings(max_examples=25, deadline=None)
@given(
    faults=st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(KINDS), st.integers(1, 6)), max_size=6),
    amounts=st.lists(st.integers(-50, 900), min_size=1, max_size=5).filter(lambda found: sum(found) > 0),
)
def test_whatever_fails_the_sums_are_equal(faults: list[tuple[tuple[str, str], str, int]], amounts: list[int]) -> None:
    store, planned = Store(), Store()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gateway, "PAUSES", (0.0,) * 4)
        client = direct_client(store, planned.fault_for)
        order = _order(client, *amounts)
        planned.faults = [Fault(*step, kind, times) for step, kind, times in faults]
        pushed = _until_done(client, order)
        planned.faults = []
        assert (pushed.status, pushed.total) == ("open", sum(amounts))
        assert [one["total"] for one in store.all("invoice")] == [sum(amounts)]
        assert sorted(one["amount"] for one in store.all("invoiceitem")) == sorted(amounts)
        assert invoice_push(client, order).id == pushed.id
    assert store.unfit == []


def test_another_total_stops_before_anything_is_final() -> None:
    store = Store()
    with running(store) as url:
        client = client_make(api_key="sk_test_double", base=url)
        order = _order(client, 563)
        with pytest.raises(TotalDiffers, match=r"is 5\.64 EUR, but .* is 5\.63 EUR"):
            invoice_push(client, replace(order, total=564))
    assert [one["status"] for one in store.all("invoice")] == ["draft"]


def test_slowing_down_is_obeyed_and_does_not_last_for_ever() -> None:
    pauses: list[float] = []

    def busy() -> None:
        raise stripe.RateLimitError("Too many requests")

    with pytest.raises(OutcomeUnknown):
        call_with_retry(busy, sleep=pauses.append)
    assert pauses == [0.5, 1.0, 2.0, 4.0]


def test_what_is_sent_is_what_the_description_says() -> None:
    assert version() == gateway.API_VERSION


@pytest.mark.parametrize(
    ("amount", "currency", "minor"),
    [
        ("5.63", "EUR", 563),
        ("1200", "JPY", 1200),
        ("1.230", "KWD", 1230),
        ("-0.02", "EUR", -2),
        ("999999999999.99", "USD", 99999999999999),
    ],
)
def test_amounts_in_smallest_units_and_back(amount: str, currency: str, minor: int) -> None:
    assert minor_of(Decimal(amount), currency=currency) == minor
    assert amount_of(minor, currency=currency) == Decimal(amount)


@pytest.mark.parametrize(("amount", "currency"), [("5.631", "EUR"), ("0.5", "JPY"), ("1.234", "KWD")])
def test_what_cannot_be_sent_exactly_is_refused(amount: str, currency: str) -> None:
    with pytest.raises(ValueError, match=r"(decimal place|places)"):
        minor_of(Decimal(amount), currency=currency)


@pytest.mark.parametrize(
    ("due", "currency", "collects"),
    [
        ("5.63", "EUR", True),
        ("5.631", "EUR", False),
        ("563", "JPY", True),
        ("563.5", "JPY", False),
        ("5.63", "KWD", False),
    ],
)
def test_what_stripe_cannot_take_is_paid_by_transfer(settings: Any, due: str, currency: str, collects: bool) -> None:
    """A book that was published with more places than its currency has makes such amounts."""
    settings.STRIPE_API_KEY = "sk_test_x"
    assert Stripe().collects(due=Decimal(due), currency=currency) is collects
