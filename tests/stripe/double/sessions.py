"""Checkout in setup mode, the billing portal, and what both do to a customer's cards."""

from __future__ import annotations

from tests.stripe.double.answers import made
from tests.stripe.double.customers import card_attach
from tests.stripe.double.errors import invalid
from tests.stripe.double.store import Store, Thing

SESSION_SECONDS = 24 * 3600


def checkout_create(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/checkout/sessions: setup alone, which is the mode that we use."""
    if given.get("mode") != "setup":
        raise invalid("The double carries out sessions in setup mode.", param="mode")
    if "currency" not in given and not given.get("payment_method_types"):
        raise invalid("Setup mode needs `currency` or `payment_method_types`.", param="currency")
    if "success_url" not in given:
        raise invalid("A hosted page needs `success_url`.", code="parameter_missing", param="success_url")
    customer, now = store.get("customer", given.get("customer", "")), store.now()
    intent = made(
        "setup_intent",
        created=now,
        customer=customer["id"],
        payment_method_types=["card"],
        usage="off_session",
        status="requires_payment_method",
        metadata=given.get("setup_intent_data", {}).get("metadata") or {},
    )
    store.add("seti", intent)
    session = made(
        "checkout.session",
        created=now,
        customer=customer["id"],
        mode="setup",
        status="open",
        payment_method_types=["card"],
        payment_status="no_payment_required",
        expires_at=now + SESSION_SECONDS,
        success_url=given["success_url"],
        cancel_url=given.get("cancel_url"),
        metadata=given.get("metadata") or {},
        currency=given.get("currency"),
        setup_intent=intent["id"],
    )
    store.add("cs_test", session)
    session["url"] = f"{store.base}/hosted/checkout/{session['id']}"
    store.tell("setup_intent.created", intent)
    return session


def checkout_get(store: Store, given: Thing, path: Thing) -> Thing:
    """GET /v1/checkout/sessions/{session}"""
    return store.get("checkout.session", path["session"])


def checkout_expire(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/checkout/sessions/{session}/expire"""
    session = store.get("checkout.session", path["session"])
    if session["status"] != "open":
        raise invalid("Only an open session expires.")
    session |= {"status": "expired", "url": None}
    store.tell("checkout.session.expired", session)
    return session


def checkout_complete(store: Store, session: Thing, card: str) -> Thing:
    """What the hosted page does with a card. Raises Refused (402) for one that declines."""
    if session["status"] != "open":
        raise invalid("This session is over.")
    intent = store.get("setup_intent", session["setup_intent"])
    try:
        method = card_attach(store, card, session["customer"])
    except Exception:
        store.tell("setup_intent.setup_failed", intent)
        raise
    intent |= {"status": "succeeded", "payment_method": method["id"]}
    session |= {"status": "complete", "url": None}
    store.tell("setup_intent.succeeded", intent)
    store.tell("checkout.session.completed", session)
    return session


def intent_get(store: Store, given: Thing, path: Thing) -> Thing:
    """GET /v1/setup_intents/{intent}"""
    return store.get("setup_intent", path["intent"])


def portal_create(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/billing_portal/sessions"""
    customer = store.get("customer", given.get("customer", ""))
    session = made(
        "billing_portal.session",
        created=store.now(),
        customer=customer["id"],
        configuration="bpc_double",
        return_url=given.get("return_url"),
    )
    store.add("bps", session)
    session["url"] = f"{store.base}/hosted/portal/{session['id']}"
    return session
