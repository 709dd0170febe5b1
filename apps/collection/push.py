"""Pushes our invoices to Stripe, and stores the state of each invoice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import stripe
import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F

from apps.accounts.broker import task_send_on_commit
from apps.collection.amounts import minor_format, minor_of
from apps.collection.calls import KEY_TRUST, InvoiceChanged, Recorder, calls_settle
from apps.collection.customers import customer_ensure
from apps.collection.gateway import KeyBroken, OutcomeUnknown
from apps.collection.locking import invoice_lock_try, run_each
from apps.collection.models import PushState, StripeCustomer, StripePush
from apps.collection.pull import STATES, invoice_sync
from apps.collection.push_changes import remainder_align, stripe_invoice_find
from apps.collection.push_steps import Item, Order, TotalDiffers, invoice_charge, invoice_finalise
from apps.invoicing.models import Invoice
from apps.invoicing.services.settling import invoice_lock
from apps.ledger.models import OutboxRow
from apps.pricing.rating.decimals import subtract

PROVIDER = "stripe"
ITEMS_MAX = 200  # Stripe allows 250 on an invoice
BATCH = 100  # invoices of one run
TASK = "apps.collection.tasks.stripe_tend"

log = structlog.get_logger("stripe")


def outbox_handle(row: OutboxRow, *, now: datetime) -> None:
    """Queue a new invoice for its first push, or mark a changed invoice for another push."""
    invoice = Invoice.objects.filter(pk=row.payload["invoice"], provider=PROVIDER).first()
    if invoice is None or not settings.STRIPE_API_KEY:
        return
    if row.topic == "invoice.issued":
        if invoice.open:
            StripePush.objects.bulk_create([StripePush(invoice=invoice, version_at=now)], ignore_conflicts=True)
    else:
        StripePush.objects.filter(pk=invoice.pk).update(tell_at=now)
    task_send_on_commit(TASK, queue="stripe")


def settlement_handle(row: OutboxRow, *, now: datetime) -> None:
    """Mark the organisation's open invoices for an update at Stripe, because a payment may have reduced their open
    amounts.
    """
    if not settings.STRIPE_API_KEY:
        return
    touched = Invoice.objects.filter(
        organisation=row.organisation, provider=PROVIDER, open__gt=0, stripe_push__state=PushState.OPEN
    )
    if StripePush.objects.filter(invoice__in=touched).update(tell_at=now):
        task_send_on_commit(TASK, queue="stripe")


def push_run(*, invoice_id: UUID, client: stripe.StripeClient, now: datetime) -> StripePush:
    """Push an invoice as far as possible. Safe to repeat.

    After an outage, the invoice stays queued, and the reason is stored.
    """
    with invoice_lock_try(invoice_id) as is_ours:
        push = _push_start(invoice_id, now)
        if not is_ours or push.state != PushState.WAITING:
            return push
        try:
            _push_steps(push, client, now)
        except KeyBroken as outage:
            push.version, push.version_at, push.error = push.version + 1, now, str(outage)[:400]
        except (OutcomeUnknown, InvoiceChanged) as outage:
            push.error = str(outage)[:400]
        except (TotalDiffers, ValueError, stripe.InvalidRequestError) as refusal:
            push.state, push.error = PushState.MISMATCH, str(refusal)[:400]
            log.error("stripe.mismatch", invoice=push.invoice.number, reason=push.error)
        push.save(update_fields=["state", "version", "version_at", "error"])
        if push.state == PushState.OPEN:
            _charge_pull(push, client, now)
        return push


@transaction.atomic
def _push_start(invoice_id: UUID, now: datetime) -> StripePush:
    StripePush.objects.bulk_create([StripePush(invoice_id=invoice_id, version_at=now)], ignore_conflicts=True)
    push = StripePush.objects.select_for_update().get(pk=invoice_id)
    if push.state == PushState.WAITING and now - push.version_at > KEY_TRUST:
        push.version, push.version_at = push.version + 1, now
    push.tried_at = now
    push.save(update_fields=["version", "version_at", "tried_at"])
    return push


def _push_steps(push: StripePush, client: stripe.StripeClient, now: datetime) -> None:
    calls_settle(invoice_id=push.pk, client=client, now=now)
    customer = customer_ensure(client=client, organisation=push.invoice.organisation, now=now)
    push.refresh_from_db(fields=["stripe_id", "ordered"])
    found = stripe_invoice_find(push, client)
    if found is None or found.status == "draft":
        order = _order_store(push.pk, customer, now)
        record = Recorder(client, push.pk, now, _still_ordered(order))
        found = invoice_finalise(client, order, found, record)
    elif push.ordered is not None and found.total != push.ordered:
        raise TotalDiffers(
            f"the total of Stripe's invoice {found.id} is {minor_format(found.total, currency=found.currency)}, but the expected "
            f"total is {minor_format(push.ordered, currency=found.currency)}"
        )
    StripePush.objects.filter(pk=push.pk).update(stripe_id=found.id, hosted_url=str(found.hosted_invoice_url or ""))
    remainder_align(push, client, now)  # the invoice may have changed here since it was finalised
    if customer.payment_method and Invoice.objects.get(pk=push.pk).open:
        _charge(push, customer, client, now)
    push.refresh_from_db()
    push.state, push.error = PushState.OPEN if push.state == PushState.WAITING else push.state, ""


def _charge(push: StripePush, customer: StripeCustomer, client: stripe.StripeClient, now: datetime) -> None:
    push.refresh_from_db()
    order = order_of(push, customer, now=now)
    final = stripe_invoice_find(push, client)
    if final is not None and final.amount_remaining == order.total:
        invoice_charge(client, order, final, Recorder(client, push.pk, now, _still_ordered(order)))


def _still_ordered(order: Order) -> Callable[[Invoice], bool]:
    return lambda invoice: minor_of(invoice.open, currency=invoice.currency) == order.total


@transaction.atomic
def _order_store(invoice_id: UUID, customer: StripeCustomer, now: datetime) -> Order:
    push = StripePush.objects.select_for_update().get(pk=invoice_id)
    push.invoice = invoice_lock(invoice_id)
    if not push.invoice.is_waiting:
        raise InvoiceChanged(f"invoice {push.invoice.number} is not open any more")
    order = order_of(push, customer, now=now)
    push.ordered = order.total
    push.included = list(push.invoice.credit_notes.order_by("number").values_list("number", flat=True))
    push.save(update_fields=["ordered", "included"])
    return order


def _charge_pull(push: StripePush, client: stripe.StripeClient, now: datetime) -> None:
    try:
        invoice_sync(stripe_id=push.stripe_id, client=client, now=now)
    except OutcomeUnknown:
        log.warning("stripe.later", invoice=push.invoice.number)  # its events repeat it
    push.refresh_from_db()


def order_of(push: StripePush, customer: StripeCustomer, *, now: datetime) -> Order:
    """Return the order for Stripe. The items sum to the invoice's open amount.

    The due date is at least one hour from now, because Stripe refuses due dates in the past.
    """
    invoice, document = push.invoice, push.invoice.document
    named = [(_title(line), Decimal(line["share"])) for line in document["lines"]]
    named += [(one["title"], Decimal(one["share"])) for one in document.get("adjustments", [])]
    named += [
        ("Carried from the previous invoice", Decimal(document["carried_in_share"])),
        ("Tax", invoice.tax),
        ("Already settled", subtract(invoice.open, invoice.due)),
    ]
    items = [Item(title, minor_of(amount, currency=invoice.currency)) for title, amount in named if amount]
    if len(items) > ITEMS_MAX:
        rest = items[ITEMS_MAX - 1 :]
        items = [
            *items[: ITEMS_MAX - 1],
            Item(f"{len(rest)} more lines, see {invoice.number}", sum(r.amount for r in rest)),
        ]
    return Order(
        invoice_id=str(invoice.id),
        number=invoice.number,
        customer=customer.customer_id,
        currency=invoice.currency,
        due_at=max(invoice.due_at, now + timedelta(hours=1)),
        total=minor_of(invoice.open, currency=invoice.currency),
        items=tuple(items),
        version=push.version,
        is_automatic=bool(customer.payment_method),
    )


def push_retry(*, invoice_id: UUID, client: stripe.StripeClient, now: datetime) -> StripePush:
    """Push an invoice again after a mismatch of totals, with new idempotency keys."""
    StripePush.objects.filter(pk=invoice_id, state=PushState.MISMATCH).update(
        state=PushState.WAITING, version=F("version") + 1, version_at=now
    )
    return push_run(invoice_id=invoice_id, client=client, now=now)


def _title(line: dict[str, Any]) -> str:
    program = line.get("program") or {}
    return f"{line['number']}. {line.get('title') or program.get('model') or line['kind']}"


def push_due(*, client: stripe.StripeClient, now: datetime) -> int:
    """Push at most BATCH waiting invoices, and return how many of these invoices are now at Stripe."""
    known = StripePush.objects.exclude(state=PushState.WAITING).values("invoice")
    waiting = Invoice.objects.filter(provider=PROVIDER, open__gt=0).exclude(pk__in=known)
    waiting = waiting.order_by(F("stripe_push__tried_at").asc(nulls_first=True), "issued_at")
    ids = list(waiting.values_list("pk", flat=True)[:BATCH])
    return run_each(ids, lambda name: push_run(invoice_id=name, client=client, now=now).state in STATES.values())
