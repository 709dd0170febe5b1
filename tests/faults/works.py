"""Everything that the platform does by itself between a job and money in the bank, and what must be equal afterwards."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.test import override_settings

from apps.accounts.problems import Problem
from apps.collection.customers import client_of_settings
from apps.collection.events import event_handle, event_receive, events_catch_up
from apps.collection.models import PushState, StripeEvent, StripePush
from apps.collection.push import push_due
from apps.dispatch import services
from apps.dispatch.execution import lease_execute
from apps.dispatch.models import Job, JobState, Lease, LeaseState
from apps.dispatch.services.leases import SILENT_AFTER
from apps.invoicing.models import FactKind, Invoice, StripeFact
from apps.invoicing.outbox import outbox_deliver
from apps.invoicing.services import invoice_issue
from apps.ledger.models import Hold, HoldState, OutboxRow, UsageRow
from apps.ledger.selectors import balances
from apps.pricing.rating import decimal_text, exact_sum
from apps.reports.reconciling import organisation_compare
from apps.sales.services import contracts_close_due
from tests.dispatch.real import real_program
from tests.dispatch.scene import Scene
from tests.stripe.double.description import description
from tests.stripe.double.server import running
from tests.stripe.double.store import Store

ITEMS = 300  # two leases: 256 and 44
SECRET = "whsec_double"
CARD = "pm_card_visa"
DELIVERED = ("invoice.finalized", "invoice.paid")  # all else is found by asking what there is


def dear(document: dict[str, Any]) -> None:
    """A price at which even a small program comes to more than a card's smallest charge."""
    document["prices"]["lpu"]["float32"] = "80000000"


@contextmanager
def collector() -> Iterator[tuple[Store, dict[str, str]]]:
    """The double of Stripe, as a server; also the settings by which a process finds it."""
    store = Store()
    description()  # read now: the first answer must not take longer than a client waits
    with running(store) as url:
        named = {"STRIPE_API_KEY": "sk_test_double", "STRIPE_API_BASE": url, "STRIPE_WEBHOOK_SECRET": SECRET}
        with override_settings(**named):
            yield store, named
    assert store.unfit == []


def signed(event: dict[str, Any]) -> tuple[bytes, str]:
    """An event as Stripe would deliver it: its body and the header that signs it."""
    body, at = json.dumps(event).encode(), int(time.time())
    mac = hmac.new(SECRET.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return body, f"t={at},v1={mac}"


@dataclass
class Works:
    """The workers, sweeps, the customer and Stripe's messenger, in one process. `forward` may be broken off anywhere
    and begun again; a repetition does what is left."""

    scene: Scene
    store: Store
    jobs: list[Job] = field(default_factory=list)

    @classmethod
    def opened(cls, scene: Scene, store: Store) -> Works:
        """Works with a program to run."""
        scene.programs.append(real_program(scene))
        return cls(scene, store)

    def begin(self) -> None:
        """One more job of two leases, under a contract that it uses up, whose time has come."""
        contract = self.scene.contract((self.scene.programs[0], ITEMS))
        self.jobs.append(self.scene.job(contract, ITEMS, shape=(1, 8)))
        self.scene.pass_time(minutes=5)

    def clock(self) -> datetime:
        """The scene's present."""
        return self.scene.now

    def forward(self) -> None:
        """One round of everybody."""
        services.leases_reoffer_silent(now=self.scene.now)
        services.leases_offer_due(now=self.scene.now)
        for lease in Lease.objects.filter(state=LeaseState.OFFERED).order_by("device_from"):
            lease_execute(lease_id=lease.pk, epoch=lease.epoch, host="here", clock=self.clock)
        services.jobs_advance_due(now=self.scene.now)
        contracts_close_due(now=self.scene.now)
        invoice_what_there_is(self.scene, now=self.scene.now + timedelta(seconds=1))
        outbox_deliver(now=self.scene.now)
        client = client_of_settings()
        push_due(client=client, now=self.scene.now)
        customer_pays()
        for event in events_new():
            event_handle(event_id=deliver_twice(event, now=self.scene.now), client=client, now=self.scene.now)

    def recover(self) -> None:
        """What the sweeps do once a worker's silence is noticed; and once more, when there is nothing left to do but to
        catch up on the events that Stripe did not deliver."""
        self.scene.pass_time(seconds=SILENT_AFTER.total_seconds() + 1)
        self.forward()
        self.forward()
        events_catch_up(client=client_of_settings(), now=self.scene.now)


def invoice_what_there_is(scene: Scene, *, now: datetime) -> None:
    """An invoice over what was used before `now`, if anything was."""
    try:
        invoice_issue(organisation=scene.cast.organisation, actor=None, now=now)
    except Problem as refusal:
        if refusal.kind != "nothing-to-invoice":
            raise


def customer_pays() -> None:
    """The customer pays what Stripe asks for, with a card."""
    client = client_of_settings()
    for push in StripePush.objects.filter(state=PushState.OPEN).select_related("invoice__organisation"):
        if client.v1.invoices.retrieve(push.stripe_id).status != "open":
            continue
        customer = push.invoice.organisation.stripe_customer.customer_id  # type: ignore[attr-defined]
        method = client.v1.payment_methods.attach(CARD, {"customer": customer})
        client.v1.invoices.pay(push.stripe_id, {"payment_method": method.id})


def events_new() -> list[dict[str, Any]]:
    """What Stripe delivers of what nobody has handled: the newest first, which is not the order of what happened."""
    listed = client_of_settings().v1.events.list({"limit": 6, "types": list(DELIVERED)})
    found = [event.to_dict() for event in listed.data]
    handled = StripeEvent.objects.exclude(handled_at=None).filter(pk__in=[event["id"] for event in found])
    known = set(handled.values_list("pk", flat=True))
    return [event for event in found if event["id"] not in known]


def deliver_twice(event: dict[str, Any], *, now: datetime) -> str:
    """Stripe's messenger comes twice with the same; returns the event's id."""
    body, signature = signed(event)
    event_receive(body=body, signature=signature, now=now)
    return event_receive(body=body, signature=signature, now=now)


@dataclass(frozen=True)
class Totals:
    """Counts and sums at every place that money passes."""

    executed: tuple[int, int]
    metered: tuple[int, int, str]
    posted: str
    invoiced: str
    paid: str
    at_stripe: str

    def __str__(self) -> str:
        return (
            f"executed {self.executed[0]} leases, {self.executed[1]} executions; metered {self.metered[0]} rows, "
            f"{self.metered[1]} executions, {self.metered[2]}; posted {self.posted}; invoiced {self.invoiced}; "
            f"paid {self.paid}; at Stripe {self.at_stripe}"
        )


def totals(works: Works) -> Totals:
    """As the database and Stripe have them now."""
    organisation = works.scene.cast.organisation
    leases = list(
        Lease.objects.filter(stage__job__in=works.jobs, state=LeaseState.DONE).values_list("count", flat=True)
    )
    rows = list(UsageRow.objects.filter(organisation=organisation).values_list("quantity", "amount"))
    paid = StripeFact.objects.filter(invoice__organisation=organisation, kind=FactKind.PAID)
    settled = [one for one in works.store.all("invoice_payment") if one["status"] == "paid"]
    books = balances(organisation.pk)
    invoices = Invoice.objects.filter(organisation=organisation)
    return Totals(
        executed=(len(leases), sum(leases)),
        metered=(len(rows), sum(quantity for quantity, _ in rows), _text(amount for _, amount in rows)),
        posted=_text([books.get(("revenue", "EUR"), Decimal(0)).copy_negate()]),
        invoiced=_text(invoices.values_list("net", flat=True)),
        paid=_text(paid.values_list("amount", flat=True)),
        at_stripe=_text(Decimal(one["amount_paid"]).scaleb(-2) for one in settled),
    )


def _text(amounts: Any) -> str:
    return decimal_text(exact_sum(list(amounts)))


def differences(works: Works) -> list[str]:
    """What is not equal, or not finished; none when everything has come to its end."""
    organisation = works.scene.cast.organisation
    wrong = [f"job {job.pk} is not done" for job in works.jobs if not _is_done(job)]
    wrong += organisation_compare(organisation).differences
    told = totals(works)
    net = _text(job.contract.net for job in works.jobs)
    if told.executed[1] != ITEMS * len(works.jobs) or told.metered[:2] != told.executed:
        wrong.append(f"executed {told.executed} and metered {told.metered} of {ITEMS * len(works.jobs)}")
    if not net == told.metered[2] == told.posted == told.invoiced:
        wrong.append(f"contracts are {net}, metered {told.metered[2]}, posted {told.posted}, invoiced {told.invoiced}")
    due = _text(Invoice.objects.filter(organisation=organisation).values_list("due", flat=True))
    if not due == told.paid == told.at_stripe:
        wrong.append(f"due {due}, paid {told.paid}, at Stripe {told.at_stripe}")
    holds = Hold.objects.filter(organisation=organisation)
    if holds.exclude(state=HoldState.POSTED).exists() or holds.count() != len(works.jobs):
        wrong.append("a hold is not posted in full")
    if exact_sum(balances(organisation.pk).values()) != 0:
        wrong.append("the accounts do not sum to zero")
    if OutboxRow.objects.filter(delivered_at=None).exists() or StripeEvent.objects.filter(handled_at=None).exists():
        wrong.append("somebody was not told")
    return wrong


def _is_done(job: Job) -> bool:
    job.refresh_from_db()
    return bool(job.state == JobState.DONE)
