"""Stripe for the tests: the double, or, where STRIPE_API_KEY is set, the test mode of the account that it belongs to.

    STRIPE_API_KEY=sk_test_... python3 bin/dev.py test tests/stripe

A test that asks for `store` needs what only the double can do (its clock, outages, hosted pages as plain forms, a look at
what it holds); with a key those are left out, and the last lines say how many. The others use `client` alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta

import pytest
import stripe
from django.utils import timezone
from pytest_django import Settings as SettingsWrapper

from apps.collection import events, gateway
from apps.collection.customers import client_of_settings
from apps.collection.events import events_catch_up
from apps.collection.models import StripeCustomer
from tests.stripe.double.server import Serving, running
from tests.stripe.double.store import Store

SECRET = "whsec_double"
BASE = os.environ.get("TEST_STRIPE_API_BASE", "")  # a double that is running elsewhere, to rehearse a run with a key
KEY = os.environ.get("TEST_STRIPE_API_KEY", "")  # tests/plugin.py: the settings of other tests must not see it
ONLY_THE_DOUBLE = {"store", "serving"}
CLOCKS = timedelta(seconds=30)  # how far Stripe's clock and ours may be apart
PATIENT_SECONDS = 60.0  # the test mode makes disputes and events a little later


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With a key, what only the double can do is left out, and counted as deselected."""
    if not KEY:
        return
    here = [item for item in items if "tests/stripe/" in item.nodeid]
    left_out = [item for item in here if ONLY_THE_DOUBLE & set(getattr(item, "fixturenames", ()))]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def serving(settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Store, Serving]]:
    """The double, running, as the installation's Stripe."""
    monkeypatch.setattr(gateway, "PAUSES", (0.0,) * 4)
    store = Store()
    with running(store) as url:
        settings.STRIPE_API_KEY, settings.STRIPE_API_BASE = "sk_test_double", str(url)
        settings.STRIPE_WEBHOOK_SECRET = SECRET
        yield store, url
    assert store.unfit == []


@pytest.fixture
def store(serving: tuple[Store, Serving]) -> Store:
    """What the double holds."""
    return serving[0]


@pytest.fixture
def client(
    request: pytest.FixtureRequest, settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch
) -> Iterator[stripe.StripeClient]:
    """A client of the double, or of the test mode: there events of the tests before are left alone, and what a test made
    is taken away again (ids are new in every run, so nothing of an earlier one is ever met)."""
    if not KEY:
        request.getfixturevalue("serving")
        yield client_of_settings()
        return
    settings.STRIPE_API_KEY, settings.STRIPE_API_BASE, settings.STRIPE_WEBHOOK_SECRET = KEY, BASE, SECRET
    monkeypatch.setattr(events, "OVERLAP", CLOCKS)
    made = client_of_settings()
    yield made
    for customer in StripeCustomer.objects.values_list("customer_id", flat=True):
        for invoice in made.v1.invoices.list({"customer": customer, "status": "open"}).data:
            made.v1.invoices.void_invoice(str(invoice.id))
        with suppress(stripe.InvalidRequestError):  # the test did
            made.v1.customers.delete(customer)


@pytest.fixture
def caught_up(client: stripe.StripeClient) -> Callable[[Callable[[], object]], None]:
    """`caught_up(lambda: invoice_is_paid())`: take events over until that holds. Raises AssertionError when it never does."""

    def until(holds: Callable[[], object]) -> None:
        deadline = time.monotonic() + (PATIENT_SECONDS if KEY else 0)
        while True:
            events_catch_up(client=client, now=timezone.now())
            if holds():
                return
            assert time.monotonic() < deadline, "it did not come to that"
            time.sleep(1.0)

    return until
