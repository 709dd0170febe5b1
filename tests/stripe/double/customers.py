"""Customers and their cards."""

from __future__ import annotations

from tests.stripe.double.answers import made
from tests.stripe.double.errors import Refused, invalid
from tests.stripe.double.store import Store, Thing

# Stripe's test cards: brand, last four, and why a charge of them is declined.
CARDS = {
    "pm_card_visa": ("visa", "4242", ""),
    "pm_card_mastercard": ("mastercard", "4444", ""),
    "pm_card_chargeCustomerFail": ("visa", "0341", "generic_decline"),
    "pm_card_createDispute": ("visa", "0259", ""),
    "pm_card_chargeDeclined": ("visa", "0002", "generic_decline"),
}
NUMBERS = {  # what a person types for them on a hosted page
    "4242424242424242": "pm_card_visa",
    "5555555555554444": "pm_card_mastercard",
    "4000000000000341": "pm_card_chargeCustomerFail",
    "4000000000000259": "pm_card_createDispute",
    "4000000000000002": "pm_card_chargeDeclined",
}
NEVER_KEPT = frozenset({"pm_card_chargeDeclined"})  # declined even when it is to be kept, not only when it is charged


def customer_create(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/customers"""
    settings = {"custom_fields": None, "default_payment_method": None, "footer": None, "rendering_options": None}
    customer = made(
        "customer",
        created=store.now(),
        email=given.get("email"),
        name=given.get("name"),
        balance=given.get("balance", 0),
        metadata=given.get("metadata") or {},
        invoice_settings={**settings, **given.get("invoice_settings", {})},
    )
    store.add("cus", customer)
    store.tell("customer.created", customer)
    return customer


def customer_update(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/customers/{customer}"""
    customer = store.get("customer", path["customer"])
    chosen = given.get("invoice_settings", {}).get("default_payment_method")
    if chosen:
        if store.get("payment_method", chosen)["customer"] != customer["id"]:
            raise invalid("The customer does not have a payment method with that ID.", code="resource_missing")
        customer["invoice_settings"]["default_payment_method"] = chosen
    for name in ("email", "name"):
        customer[name] = given.get(name, customer[name])
    customer["metadata"] |= given.get("metadata") or {}
    store.tell("customer.updated", customer)
    return customer


def customer_get(store: Store, given: Thing, path: Thing) -> Thing:
    """GET /v1/customers/{customer}"""
    return store.get("customer", path["customer"])


def customer_list(store: Store, given: Thing, path: Thing) -> list[Thing]:
    """GET /v1/customers: those that were deleted are not listed."""
    there = [one for one in store.all("customer") if not one.get("deleted")]
    return [one for one in there if given.get("email") in {None, one["email"]}]


def customer_delete(store: Store, given: Thing, path: Thing) -> Thing:
    """DELETE /v1/customers/{customer}: nothing of it is left but that it was; its invoices stay."""
    customer = store.get("customer", path["customer"])
    store.tell("customer.deleted", customer)
    gone = {"id": customer["id"], "object": "customer", "deleted": True}
    store.objects[customer["id"]] = gone
    return gone


def method_attach(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/payment_methods/{payment_method}/attach: a test card becomes a method of the customer."""
    return card_attach(store, path["payment_method"], given.get("customer", ""))


def card_attach(store: Store, name: str, owner: str) -> Thing:
    """A test card becomes a method of the customer. Raises Refused for one that cannot be kept."""
    customer = store.get("customer", owner)
    if name in NEVER_KEPT:
        why = CARDS[name][2]
        raise Refused(402, "card_error", "Your card was declined.", code="card_declined", decline_code=why)
    method = card_made(store, name)
    method["customer"] = customer["id"]
    store.tell("payment_method.attached", method)
    return method


def card_made(store: Store, name: str) -> Thing:
    """A test card as a method that nobody keeps yet: what a payment page charges."""
    if name not in CARDS:
        raise invalid(f"No such PaymentMethod: '{name}'", code="resource_missing", param="payment_method", status=404)
    brand, last4, _ = CARDS[name]
    card = {"brand": brand, "last4": last4, "exp_month": 12, "exp_year": 2034, "funding": "credit"}
    return store.add("pm", made("payment_method", created=store.now(), type="card", card=card, customer=None))


def method_get(store: Store, given: Thing, path: Thing) -> Thing:
    """GET /v1/payment_methods/{payment_method}"""
    return store.get("payment_method", path["payment_method"])


def method_detach(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/payment_methods/{payment_method}/detach: it cannot be charged any more, nor be the default."""
    method = store.get("payment_method", path["payment_method"])
    if not method["customer"]:
        raise invalid("The payment method is not attached to a customer.")
    settings = store.get("customer", method["customer"])["invoice_settings"]
    if settings["default_payment_method"] == method["id"]:
        settings["default_payment_method"] = None
        store.tell("customer.updated", store.get("customer", method["customer"]))
    method["customer"] = None
    store.tell("payment_method.detached", method)
    return method


def tax_id_create(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/customers/{customer}/tax_ids"""
    customer = store.get("customer", path["customer"])
    found = made("tax_id", created=store.now(), customer=customer["id"], type=given["type"], value=given["value"])
    store.add("txi", found)
    store.tell("customer.tax_id.created", found)
    return found


def tax_id_list(store: Store, given: Thing, path: Thing) -> list[Thing]:
    """GET /v1/customers/{customer}/tax_ids"""
    return [one for one in store.all("tax_id") if one["customer"] == path["customer"]]


def method_list(store: Store, given: Thing, path: Thing) -> list[Thing]:
    """GET /v1/customers/{customer}/payment_methods"""
    store.get("customer", path["customer"])
    return [one for one in store.all("payment_method") if one["customer"] == path["customer"]]


def decline_of(method: Thing) -> str:
    """Why a charge of this card is declined; empty when it is not."""
    return next((why for _, last4, why in CARDS.values() if last4 == method["card"]["last4"]), "")
