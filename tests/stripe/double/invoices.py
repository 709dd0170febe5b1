"""Invoice items and invoices: draft, open, paid, void, uncollectible."""

from __future__ import annotations

from contextlib import suppress

from tests.stripe.double.answers import made
from tests.stripe.double.errors import Refused, invalid
from tests.stripe.double.payments import charge
from tests.stripe.double.store import Store, Thing


def item_create(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/invoiceitems, onto a draft of the same customer and currency."""
    customer = store.get("customer", given.get("customer", ""))
    if "amount" not in given or "currency" not in given:
        raise invalid("Give an amount and its currency.", code="parameter_missing", param="amount")
    currency, now = given["currency"].lower(), store.now()
    if "invoice" in given:
        invoice = store.get("invoice", given["invoice"])
        if invoice["status"] != "draft":
            raise invalid("Invoice items can only be added to a draft.", code="invoice_not_editable", param="invoice")
        if (invoice["customer"], invoice["currency"]) != (customer["id"], currency):
            raise invalid("The invoice is of another customer or currency.", param="invoice")
    item = made(
        "invoiceitem",
        amount=given["amount"],
        currency=currency,
        customer=customer["id"],
        date=now,
        quantity=1,
        description=given.get("description"),
        invoice=given.get("invoice"),
        metadata=given.get("metadata") or {},
        period=given.get("period", {"start": now, "end": now}),
        quantity_decimal="1",
    )
    store.add("ii", item)
    if item["invoice"]:
        _sum(store, store.get("invoice", item["invoice"]))
    return item


def item_list(store: Store, given: Thing, path: Thing) -> list[Thing]:
    """GET /v1/invoiceitems"""
    wanted = {name: given[name] for name in ("customer", "invoice") if name in given}
    return [one for one in store.all("invoiceitem") if all(one[name] == value for name, value in wanted.items())]


def invoice_create(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/invoices: a draft without lines."""
    customer, now = store.get("customer", given.get("customer", "")), store.now()
    way, days = given.get("collection_method", "charge_automatically"), given.get("days_until_due")
    if way == "send_invoice" and days is None and "due_date" not in given:
        raise invalid("An invoice to be sent needs `days_until_due` or `due_date`.", param="days_until_due")
    if way != "send_invoice" and (days is not None or "due_date" in given):
        raise invalid("Only an invoice to be sent has a due date.", param="days_until_due")
    if way == "send_invoice" and not customer["email"]:
        raise invalid("Missing email. An invoice to be sent needs a customer with a valid email.", param="customer")
    if given.get("due_date", now + 1) <= now:
        raise invalid("The due date must be in the future.", param="due_date")
    due = given.get("due_date", now + days * 86_400 if days is not None else None)
    invoice = made(
        "invoice",
        created=now,
        customer=customer["id"],
        currency=given.get("currency", "usd").lower(),
        status="draft",
        collection_method=way,
        auto_advance=given.get("auto_advance", False),
        metadata=given.get("metadata") or {},
        description=given.get("description"),
        number=given.get("number"),
        due_date=due,
        period_start=now,
        period_end=now,
        hosted_invoice_url=None,
    )
    invoice["status_transitions"] = dict.fromkeys(("finalized_at", "marked_uncollectible_at", "paid_at", "voided_at"))
    store.add("in", invoice)
    _sum(store, invoice)
    store.tell("invoice.created", invoice)
    return invoice


def _sum(store: Store, invoice: Thing) -> None:
    items = [one for one in reversed(store.all("invoiceitem")) if one["invoice"] == invoice["id"]]
    lines = [
        made(
            "line_item",
            id=f"il_{one['id'][3:]}",
            amount=one["amount"],
            subtotal=one["amount"],
            currency=one["currency"],
            description=one["description"],
            invoice=invoice["id"],
            metadata=one["metadata"],
            period=one["period"],
            quantity=1,
            parent={
                "type": "invoice_item_details",
                "subscription_item_details": None,
                "invoice_item_details": {
                    "invoice_item": one["id"],
                    "proration": False,
                    "proration_details": None,
                    "subscription": None,
                },
            },
        )
        for one in items
    ]
    url = f"/v1/invoices/{invoice['id']}/lines"
    invoice["lines"] = {"object": "list", "data": lines, "has_more": False, "url": url}
    total = sum(one["amount"] for one in items)
    invoice |= {"subtotal": total, "total": total}
    invoice["amount_due"] = invoice["amount_remaining"] = max(total, 0)


def invoice_get(store: Store, given: Thing, path: Thing) -> Thing:
    """GET /v1/invoices/{invoice}"""
    return store.get("invoice", path["invoice"])


def invoice_list(store: Store, given: Thing, path: Thing) -> list[Thing]:
    """GET /v1/invoices"""
    wanted = {name: given[name] for name in ("customer", "status", "collection_method") if name in given}
    return [one for one in store.all("invoice") if all(one[name] == value for name, value in wanted.items())]


def _moved(store: Store, invoice: Thing, status: str, stamp: str, event: str) -> Thing:
    invoice["status"] = status
    invoice["status_transitions"][stamp] = store.now()
    store.tell(event, invoice)
    return invoice


def _only(invoice: Thing, *states: str, act: str) -> None:
    if invoice["status"] not in states:
        raise invalid(f"You can only {act} an invoice that is {' or '.join(states)}; this one is {invoice['status']}.")


def invoice_finalize(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/invoices/{invoice}/finalize"""
    invoice = store.get("invoice", path["invoice"])
    _only(invoice, "draft", act="finalize")
    invoice["number"] = invoice["number"] or f"DOUBLE-{store.count:06d}"
    invoice["auto_advance"] = given.get("auto_advance", invoice["auto_advance"])
    invoice["hosted_invoice_url"] = f"{store.base}/hosted/invoices/{invoice['id']}"
    _moved(store, invoice, "open", "finalized_at", "invoice.finalized")
    if not invoice["amount_due"]:
        return paid(store, invoice)
    if invoice["auto_advance"] and invoice["collection_method"] == "charge_automatically":
        with suppress(Refused):  # a card that declines leaves it open, and an event says so
            invoice_pay(store, {}, path)
    return invoice


def paid(store: Store, invoice: Thing) -> Thing:
    """Nothing is left of it; what cards paid is known from its payments."""
    taken = [one["amount_paid"] for one in store.all("invoice_payment") if one["invoice"] == invoice["id"]]
    invoice |= {"amount_remaining": 0, "amount_paid": sum(one or 0 for one in taken), "attempted": True}
    return _moved(store, invoice, "paid", "paid_at", "invoice.paid")


def invoice_pay(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/invoices/{invoice}/pay: charge the customer's card, or note that money came another way."""
    invoice = store.get("invoice", path["invoice"])
    _only(invoice, "open", "uncollectible", act="pay")
    if given.get("paid_out_of_band"):
        invoice["amount_paid_off_stripe"] = invoice["amount_remaining"]
        return paid(store, invoice)
    customer = store.get("customer", invoice["customer"])
    method = given.get("payment_method") or customer["invoice_settings"]["default_payment_method"]
    if not method:
        raise invalid("There is no `default_payment_method` set on this Customer or Invoice.", code="resource_missing")
    return invoice_attempt(store, invoice, _chargeable(store, customer, method))


def invoice_attempt(store: Store, invoice: Thing, method: Thing) -> Thing:
    """Charge an open invoice to a card. Raises Refused (402) for one that declines, once the events have said so."""
    invoice["attempt_count"] = max(invoice["attempt_count"], 1)  # after the first only retries by themselves count
    invoice["attempted"] = True
    try:
        charge(store, invoice, method)
    except Exception:
        store.tell("invoice.payment_failed", invoice)
        raise
    return paid(store, invoice)


def _chargeable(store: Store, customer: Thing, name: str) -> Thing:
    method = store.get("payment_method", name)
    if method["customer"] != customer["id"]:
        raise invalid("The payment method does not belong to the customer.", param="payment_method")
    return method


def invoice_send(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/invoices/{invoice}/send"""
    invoice = store.get("invoice", path["invoice"])
    _only(invoice, "open", act="send")
    store.tell("invoice.sent", invoice)
    return invoice


def invoice_void(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/invoices/{invoice}/void"""
    invoice = store.get("invoice", path["invoice"])
    _only(invoice, "open", "uncollectible", act="void")
    return _moved(store, invoice, "void", "voided_at", "invoice.voided")


def invoice_uncollectible(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/invoices/{invoice}/mark_uncollectible"""
    invoice = store.get("invoice", path["invoice"])
    _only(invoice, "open", act="mark as uncollectible")
    return _moved(store, invoice, "uncollectible", "marked_uncollectible_at", "invoice.marked_uncollectible")


def invoice_delete(store: Store, given: Thing, path: Thing) -> Thing:
    """DELETE /v1/invoices/{invoice}: drafts alone."""
    invoice = store.get("invoice", path["invoice"])
    _only(invoice, "draft", act="delete")
    for item in item_list(store, {"invoice": invoice["id"]}, {}):
        del store.objects[item["id"]]
    del store.objects[invoice["id"]]
    store.tell("invoice.deleted", invoice)
    return {"id": invoice["id"], "object": "invoice", "deleted": True}
