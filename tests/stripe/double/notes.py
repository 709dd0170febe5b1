"""Credit notes on invoices, and events of billing meters."""

from __future__ import annotations

from tests.stripe.double.answers import made
from tests.stripe.double.errors import Refused, invalid
from tests.stripe.double.invoices import paid
from tests.stripe.double.store import Store, Thing


def note_create(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/credit_notes: less is left to pay; what was paid already must be said to go back, and how."""
    invoice = store.get("invoice", given["invoice"])
    if invoice["status"] not in {"open", "paid"}:
        raise invalid("Credit notes are for invoices that are open or paid.", param="invoice")
    amount = given.get("amount", 0)
    before = min(amount, invoice["amount_remaining"])
    after, outside = amount - before, given.get("out_of_band_amount", 0)
    left = invoice["amount_paid"] + invoice["amount_paid_off_stripe"] - invoice["post_payment_credit_notes_amount"]
    if amount <= 0 or after > max(left, 0):
        raise invalid(f"{amount} is more than is left to credit.", param="amount")
    if after != outside:
        raise invalid("What was paid must be refunded, credited or given back out of band.", param="out_of_band_amount")
    note = made(
        "credit_note",
        amount=amount,
        subtotal=amount,
        total=amount,
        created=store.now(),
        currency=invoice["currency"],
        customer=invoice["customer"],
        invoice=invoice["id"],
        status="issued",
        metadata=given.get("metadata") or {},
        memo=given.get("memo"),
        pre_payment_amount=before,
        post_payment_amount=after,
        out_of_band_amount=outside or None,
        number=f"{invoice['number']}-CN-{store.count:02d}",
        pdf="",
        type="post_payment" if after else "pre_payment",
        lines={"object": "list", "data": [], "has_more": False, "url": "/v1/credit_notes/lines"},
    )
    store.add("cn", note)
    invoice["pre_payment_credit_notes_amount"] += before
    invoice["post_payment_credit_notes_amount"] += after
    invoice["amount_remaining"] -= before
    invoice["amount_due"] -= before
    store.tell("credit_note.created", note)
    if before and not invoice["amount_remaining"]:
        paid(store, invoice)
    return note


def note_list(store: Store, given: Thing, path: Thing) -> list[Thing]:
    """GET /v1/credit_notes"""
    wanted = {name: given[name] for name in ("customer", "invoice") if name in given}
    return [one for one in store.all("credit_note") if all(one[name] == value for name, value in wanted.items())]


def meter_event_create(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/billing/meter_events: once for each identifier; the value is a whole number."""
    payload = given["payload"]
    if not payload.get("value", "").isdigit():
        raise invalid("The value must be a whole number of at least 0.", param="payload[value]")
    store.get("customer", payload.get("stripe_customer_id", ""))
    name = given.get("identifier") or f"meter{store.count}"
    if name in store.meters:
        raise Refused(400, "invalid_request_error", f"An event already exists with identifier {name}.")
    now = store.now()
    event = made(
        "billing.meter_event",
        created=now,
        timestamp=given.get("timestamp", now),
        event_name=given["event_name"],
        identifier=name,
        payload=payload,
    )
    store.meters[name] = event
    return event
