"""The whole way of a payment in a browser: our pages, Stripe's as the double hosts them, events delivered over HTTP.

Every event comes twice and the newest first. A task runs where it is sent, so that the web is the only process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Browser, Page, expect
from pytest_django import Settings as SettingsWrapper
from pytest_django.live_server_helper import LiveServer

from apps.accounts.models import User
from apps.collection import gateway
from apps.collection.customers import client_of_settings
from apps.collection.models import StripeCustomer, StripeEvent
from apps.collection.push import push_due
from apps.config.celery import app
from apps.invoicing.models import Invoice
from apps.invoicing.reconciliation import reconcile_all
from apps.invoicing.services import dunning_run, invoice_issue
from apps.sales.models import Contract
from tests.cast import Cast
from tests.e2e import visit as visiting
from tests.sales.tenancy import a_contract_of
from tests.sales.test_contracts import run
from tests.stripe.conftest import SECRET
from tests.stripe.double.delivering import Manner
from tests.stripe.double.server import Serving, running
from tests.stripe.double.store import Store
from tests.stripe.sold import MILLION, all_equal, books
from tests.tiers import WHOLE

GOOD, KEPT_THEN_DECLINED, DECLINED = "4242 4242 4242 4242", "4000 0000 0000 0341", "4000 0000 0000 0002"


@dataclass
class Walk:
    """Who walks, where, and the other side."""

    cast: Cast
    contract: Contract
    serving: Serving
    member: visiting.Watched
    admin: visiting.Watched

    @property
    def page(self) -> Page:
        """The customer's page."""
        return self.member.page

    def invoice(self) -> Invoice:
        """Another million executions, issued and brought to Stripe."""
        run(self.contract, MILLION, now=timezone.now())
        made = invoice_issue(organisation=self.cast.organisation, actor=self.cast.billing, now=timezone.now())
        push_due(client=client_of_settings(), now=timezone.now())
        self.serving.delivered()
        return made

    def shows(self, invoice: Invoice, *texts: str) -> None:
        """The invoice's page says all of this."""
        self.member.open(f"/invoices/{invoice.pk}")
        for text in texts:
            expect(self.page.locator("main")).to_contain_text(text)

    def desk(self, invoice: Invoice, *buttons: str) -> None:
        """Somebody at Stripe, or at a bank, acts."""
        self.page.goto(f"{self.serving}/")
        for button in buttons:
            self.page.locator("tr", has_text=invoice.number).get_by_role("button", name=button, exact=True).click()
        self.serving.delivered()

    def fits(self, watched: visiting.Watched, name: str) -> None:
        """A phone and a screen reader get along with the page that is open; a picture of it, where wanted."""
        page = watched.page
        for size in (visiting.WIDE, visiting.PHONE):
            page.set_viewport_size(size)  # type: ignore[arg-type]
            assert watched.overflow() == [], name
            if os.environ.get("TAKT_PICTURES"):
                page.screenshot(path=Path(os.environ["TAKT_PICTURES"]) / f"{name}-{size['width']}.png", full_page=True)
        assert watched.barriers(contrast=None if WHOLE else False) == [], name
        page.set_viewport_size(visiting.WIDE)  # type: ignore[arg-type]
        assert watched.noted() == []


def _run_here(name: str, kwargs: dict[str, Any] | None = None, **_: Any) -> None:
    """What is sent by its name is no eager task to Celery."""
    app.tasks[name].apply(kwargs=kwargs or {})


@pytest.fixture
def serving(
    live_server: LiveServer, settings: SettingsWrapper, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Store, Serving]]:
    """The double, delivering to the web."""
    monkeypatch.setattr(gateway, "PAUSES", (0.0,) * 4)
    app.conf.task_always_eager = True
    monkeypatch.setattr(app, "send_task", _run_here)
    store = Store()
    with running(store, webhook=f"{live_server.url}/stripe/webhook", secret=SECRET) as url:
        assert url.deliverer is not None
        url.deliverer.manner = Manner(copies=2, is_reversed=True)
        settings.STRIPE_API_KEY, settings.STRIPE_API_BASE = "sk_test_double", str(url)
        settings.STRIPE_WEBHOOK_SECRET = SECRET
        try:
            yield store, url
        finally:
            app.conf.task_always_eager = False
    assert store.unfit == []
    assert url.deliverer.refused == []


@pytest.fixture
def walk(
    serving: tuple[Store, Serving], live_server: LiveServer, cast: Cast, as_user: Callable[[User], Client]
) -> Iterator[Walk]:
    """A customer who bought two million executions, and an administrator."""

    def signed_in(opened: Browser, user: User) -> visiting.Watched:
        made = visiting.context(opened)
        session = as_user(user).cookies[django_settings.SESSION_COOKIE_NAME].value
        made.add_cookies([{"name": django_settings.SESSION_COOKIE_NAME, "value": session, "url": live_server.url}])
        return visiting.watched(made, live_server.url)

    contract = a_contract_of(cast, executions=2 * MILLION)
    with visiting.chromium() as opened:
        yield Walk(cast, contract, serving[1], signed_in(opened, cast.billing), signed_in(opened, cast.admin))


@pytest.mark.filterwarnings("ignore::celery.exceptions.AlwaysEagerIgnored")
def test_the_whole_way_of_a_payment(walk: Walk) -> None:
    first = _a_card_is_kept_and_the_invoice_charged(walk)
    second = _a_declined_card_is_followed_by_a_reminder_and_paid_by_hand(walk)
    walk.desk(second, "Refund")
    walk.shows(second, "Paid", "Refunded", "re_")
    _the_bank_takes_back_what_was_paid(walk, first)
    _both_sides_are_equal(walk)
    found = books(walk.cast, "bank", "refund", "disputed", "bad_debt")
    assert found == [0, Decimal("5.63"), 0, Decimal("5.63")]


def _a_card_is_kept_and_the_invoice_charged(walk: Walk) -> Invoice:
    """Checkout: left, declined, done; the next invoice is paid as it is brought."""
    page, place = walk.page, "/portal/payment-methods"
    walk.member.open(place)
    expect(page.locator("main")).to_contain_text("Sandbox")
    page.get_by_role("button", name="Add a payment method").click()
    page.get_by_role("link", name="Back without adding a card").click()
    expect(page.get_by_text("No card was added; nothing has changed.")).to_be_visible()
    page.get_by_role("button", name="Add a payment method").click()
    _card(page, DECLINED, "Save card")
    expect(page.get_by_role("alert")).to_have_text("Your card was declined.")
    page.goto(walk.member.base + place)
    page.get_by_role("button", name="Add a payment method").click()
    _card(page, GOOD, "Save card")
    expect(page.get_by_text("Card saved.")).to_be_visible()
    expect(page.locator("main")).to_contain_text("visa ending in 4242, valid until 12/2034")
    walk.fits(walk.member, "payment-methods")
    invoice = walk.invoice()
    walk.shows(invoice, "Paid", "Payments and credits", "pi_")
    return invoice


def _card(page: Page, number: str, button: str) -> None:
    page.get_by_label("Card number").fill(number)
    page.get_by_role("button", name=re.compile(button)).first.click()


def _a_declined_card_is_followed_by_a_reminder_and_paid_by_hand(walk: Walk) -> Invoice:
    """Stripe's portal: another card, which declines; overdue, reminded, then paid on the invoice's own page."""
    page = walk.page
    walk.member.open("/portal/payment-methods")
    page.get_by_role("button", name="Manage cards and tax ids").click()
    _card(page, KEPT_THEN_DECLINED, "Add card")
    page.get_by_label("VAT number").fill("DE123456789")
    page.get_by_role("button", name="Add tax id").click()
    expect(page.get_by_text("DE123456789")).to_be_visible()
    page.get_by_role("button", name="Remove 4242").click()
    page.get_by_role("link", name="Back to Takt").click()
    expect(page.locator("main")).to_contain_text("visa ending in 0341")
    walk.serving.delivered()
    assert StripeCustomer.objects.get().method_label.startswith("visa ending in 0341")
    invoice = walk.invoice()
    walk.shows(invoice, "Overdue", "Payment failed")
    assert dunning_run(now=invoice.due_at + timedelta(days=3, hours=1)) == 1
    assert Invoice.objects.get(pk=invoice.pk).reminders == 1
    page.get_by_role("link", name="Pay now").click()
    expect(page.locator("main")).to_contain_text("Sandbox")
    _card(page, DECLINED, "^Pay 5.63 EUR$")
    expect(page.get_by_role("alert")).to_have_text("Your card was declined.")
    _card(page, GOOD, "^Pay 5.63 EUR$")
    expect(page.locator("main")).to_contain_text("State: paid")
    walk.serving.delivered()
    walk.shows(invoice, "Paid", "pi_")
    assert dunning_run(now=invoice.due_at + timedelta(days=30)) == 0
    return invoice


def _the_bank_takes_back_what_was_paid(walk: Walk, invoice: Invoice) -> None:
    """Disputed twice: the first is won, the second lost."""
    for button, said in (("Dispute is won", "Dispute won"), ("Dispute is lost", "Dispute lost")):
        walk.desk(invoice, "Dispute")
        walk.shows(invoice, "The payer's bank has withdrawn the payment")
        walk.desk(invoice, button)
        walk.shows(invoice, said, "du_")
    walk.fits(walk.member, "invoice-disputed")


def _both_sides_are_equal(walk: Walk) -> None:
    """The administrator compares, looks at an event, handles it again: nothing changes."""
    page = walk.admin.page
    walk.admin.open("/stripe")
    page.get_by_role("button", name="Compare now").click()
    expect(page.get_by_text("No differences found.")).to_be_visible()
    expect(page.locator("tr", has_text="lost")).to_contain_text("5.63")
    walk.fits(walk.admin, "stripe")
    page.locator("a[href*='/stripe/events/']").first.click()
    page.get_by_role("button", name="Handle again").click()
    expect(page.get_by_text("Event handled. The object")).to_be_visible()
    walk.fits(walk.admin, "stripe-event")
    assert not StripeEvent.objects.filter(handled_at=None).exists()
    assert reconcile_all(walk.cast.organisation).differences == []
    all_equal(walk.cast, client_of_settings())
