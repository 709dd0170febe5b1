"""Brings our invoices to Stripe and keeps how far each has come."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import stripe
import structlog
from django.conf import settings
from django.db import transaction

from apps.billing.models import Invoice, PushState, StripeCustomer, StripePush
from apps.billing.stripe.amounts import minor_of
from apps.billing.stripe.closing import invoice_close
from apps.billing.stripe.customers import client_of_settings, customer_ensure
from apps.billing.stripe.gateway import Broken, Uncertain
from apps.billing.stripe.pushing import Item, Order, TotalDiffers, invoice_push
from apps.billing.stripe.syncing import STATES, invoice_sync
from apps.ledger.models import OutboxRow
from apps.pricing.rating.decimals import subtract

PROVIDER = "stripe"
KEY_TRUST = timedelta(hours=23)  # Stripe forgets a key after 24 hours: then what is there is looked up, under a new key
ITEMS_MAX = 200  # Stripe takes 250 on an invoice

log = structlog.get_logger("stripe")


def outbox_handle(row: OutboxRow, *, now: datetime) -> None:
    """An invoice was issued: bring it; or something happened to it elsewhere: Stripe is told.

    A push that fails is tried again by the scheduler, so nothing waits behind it. Raises gateway.Uncertain.
    """
    invoice = Invoice.objects.filter(pk=row.payload["invoice"], provider=PROVIDER).first()
    if invoice is None or not settings.STRIPE_API_KEY:
        return
    if row.topic != "invoice.issued":
        invoice_close(invoice_id=invoice.id, client=client_of_settings(), now=now)
    elif invoice.open:
        push_run(invoice_id=invoice.id, client=client_of_settings(), now=now)


def settlement_handle(row: OutboxRow, *, now: datetime) -> None:
    """Money came: an invoice at Stripe of which a part was paid elsewhere leaves as much less. Raises gateway.Uncertain."""
    if not settings.STRIPE_API_KEY:
        return
    touched = Invoice.objects.filter(
        organisation=row.organisation, provider=PROVIDER, open__gt=0, stripe_push__state=PushState.OPEN
    )
    for invoice in touched:
        invoice_close(invoice_id=invoice.id, client=client_of_settings(), now=now)


@transaction.atomic
def push_run(*, invoice_id: UUID, client: stripe.StripeClient, now: datetime) -> StripePush:
    """Bring an invoice as far as it goes. Safe to repeat; an outage leaves it waiting with the reason."""
    StripePush.objects.bulk_create([StripePush(invoice_id=invoice_id, version_at=now)], ignore_conflicts=True)
    push = StripePush.objects.select_for_update().get(pk=invoice_id)
    if push.state != PushState.WAITING:
        return push
    if now - push.version_at > KEY_TRUST:
        push.version, push.version_at = push.version + 1, now
    try:
        customer = customer_ensure(client=client, organisation=push.invoice.organisation, now=now)
        _take(push, invoice_push(client, order_of(push, customer, now=now)))
    except Broken as outage:
        push.version, push.version_at, push.error = push.version + 1, now, str(outage)
    except Uncertain as outage:
        push.error = str(outage)
    except (TotalDiffers, ValueError, stripe.InvalidRequestError) as refusal:
        push.state, push.error = PushState.MISMATCH, str(refusal)[:400]
        log.error("stripe.mismatch", invoice=push.invoice.number, reason=push.error)
    push.save(update_fields=["stripe_id", "state", "version", "version_at", "hosted_url", "error"])
    if push.state == PushState.OPEN:
        _charged_at_once(push, client, now)
    return push


def _charged_at_once(push: StripePush, client: stripe.StripeClient, now: datetime) -> None:
    """A card on file is charged as the invoice becomes final, before anybody here could hear of it."""
    try:
        invoice_sync(stripe_id=push.stripe_id, client=client, now=now)
    except Uncertain:
        log.warning("stripe.later", invoice=push.invoice.number)  # its events say it again
    push.refresh_from_db()


def _take(push: StripePush, found: stripe.Invoice) -> None:
    push.stripe_id, push.state, push.error = found.id, PushState.OPEN, ""
    push.hosted_url = str(found.hosted_invoice_url or "")


def order_of(push: StripePush, customer: StripeCustomer, *, now: datetime) -> Order:
    """What Stripe is asked to collect: our lines, our tax, and what is settled already, as items that sum to `open`.

    Stripe takes no day that has passed: an invoice that is due at once, or was brought late, is due there in an hour.
    """
    invoice, document = push.invoice, push.invoice.document
    named = [(_title(line), Decimal(line["share"])) for line in document["lines"]]
    named += [(one["title"], Decimal(one["share"])) for one in document.get("adjustments", [])]
    named += [
        ("Carried from the invoice before", Decimal(document["carried_in_share"])),
        ("Tax", invoice.tax),
        ("Settled already", subtract(invoice.open, invoice.due)),
    ]
    items = [Item(title, minor_of(amount, currency=invoice.currency)) for title, amount in named if amount]
    if len(items) > ITEMS_MAX:
        rest = items[ITEMS_MAX - 1 :]
        items = [
            *items[: ITEMS_MAX - 1],
            Item(f"{len(rest)} more lines, see {invoice.number}", sum(r.amount for r in rest)),
        ]
    return Order(
        invoice_id=str(invoice.id), number=invoice.number, customer=customer.customer_id, currency=invoice.currency,
        due_at=max(invoice.due_at, now + timedelta(hours=1)), total=minor_of(invoice.open, currency=invoice.currency),
        items=tuple(items), version=push.version, is_automatic=bool(customer.payment_method),
    )  # fmt: skip


@transaction.atomic
def push_retry(*, invoice_id: UUID, client: stripe.StripeClient, now: datetime) -> StripePush:
    """Bring an invoice whose totals differed again, after a person looked at it: under keys of the next version."""
    push = StripePush.objects.select_for_update().get(pk=invoice_id)
    if push.state == PushState.MISMATCH:
        push.state, push.version, push.version_at = PushState.WAITING, push.version + 1, now
        push.save(update_fields=["state", "version", "version_at"])
    return push_run(invoice_id=invoice_id, client=client, now=now)


def _title(line: dict[str, Any]) -> str:
    program = line.get("program") or {}
    return f"{line['number']}. {line.get('title') or program.get('model') or line['kind']}"


def pushes_tend(*, client: stripe.StripeClient, now: datetime) -> int:
    """Bring every invoice that waits; returns how many are there now."""
    known = StripePush.objects.exclude(state=PushState.WAITING).values("invoice")
    waiting = Invoice.objects.filter(provider=PROVIDER, open__gt=0).exclude(pk__in=known).order_by("issued_at")
    ids = list(waiting.values_list("pk", flat=True)[:100])
    return sum(push_run(invoice_id=one, client=client, now=now).state in STATES.values() for one in ids)
