"""Payment intents, charges and refunds."""

from __future__ import annotations

from tests.stripe.double.answers import made
from tests.stripe.double.customers import decline_of
from tests.stripe.double.errors import Refused, invalid
from tests.stripe.double.store import Store, Thing

DISPUTING = "0259"  # charges of this test card are disputed at once
OUTCOMES = {"winning_evidence": "won", "losing_evidence": "lost"}  # what is handed in decides, as in Stripe's test mode


def charge(store: Store, invoice: Thing, method: Thing) -> None:
    """Take an invoice's money from a card. Raises Refused (402) for one that declines, and keeps the attempt."""
    why, amount = decline_of(method), invoice["amount_remaining"]
    shared = {
        "amount": amount,
        "currency": invoice["currency"],
        "created": store.now(),
        "customer": invoice["customer"],
    }
    intent = made("payment_intent", **shared, status="requires_payment_method" if why else "succeeded")
    intent |= {"amount_received": 0 if why else amount, "payment_method": method["id"]}
    store.add("pi", intent)
    taken = made(
        "charge",
        **shared,
        payment_intent=intent["id"],
        payment_method=method["id"],
        paid=not why,
        captured=not why,
        status="failed" if why else "succeeded",
        amount_captured=0 if why else amount,
        failure_code="card_declined" if why else None,
        failure_message="Your card was declined." if why else None,
    )
    intent["latest_charge"] = store.add("ch", taken)["id"]
    if not why:
        _balance(store, taken, amount, "charge", "charge")
    payment = made(
        "invoice_payment",
        amount_paid=None if why else amount,
        amount_requested=amount,
        created=store.now(),
        currency=invoice["currency"],
        invoice=invoice["id"],
        is_default=True,
        status="open" if why else "paid",
        payment={"type": "payment_intent", "payment_intent": intent["id"]},
    )
    store.add("inpay", payment)
    store.tell("payment_intent.payment_failed" if why else "payment_intent.succeeded", intent)
    if method["card"]["last4"] == DISPUTING:
        dispute_open(store, taken)
    if why:
        raise Refused(
            402, "card_error", "Your card was declined.", code="card_declined", decline_code=why, charge=taken["id"]
        )


def _balance(store: Store, source: Thing, amount: int, kind: str, category: str) -> None:
    """What an object adds to the account's balance; Stripe takes its fee of what comes in."""
    fee = amount // 50 if kind == "charge" else 0
    moved = made(
        "balance_transaction",
        amount=amount,
        available_on=store.now(),
        created=store.now(),
        currency=source["currency"],
        fee=fee,
        net=amount - fee,
        source=source["id"],
        status="available",
        type=kind,
        reporting_category=category,
        balance_type="payments",
    )
    store.add("txn", moved)


def dispute_open(store: Store, taken: Thing) -> None:
    """The card's holder disputes a charge: the money is withdrawn until it is decided."""
    taken["disputed"] = True
    dispute = made(
        "dispute",
        amount=taken["amount"],
        charge=taken["id"],
        created=store.now(),
        currency=taken["currency"],
        payment_intent=taken["payment_intent"],
        reason="fraudulent",
        status="needs_response",
    )
    store.add("du", dispute)
    _balance(store, dispute, -dispute["amount"], "adjustment", "dispute")
    store.tell("charge.dispute.created", dispute)


def dispute_get(store: Store, given: Thing, path: Thing) -> Thing:
    """GET /v1/disputes/{dispute}"""
    return store.get("dispute", path["dispute"])


def dispute_update(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/disputes/{dispute}: hand in evidence; the two test texts decide at once."""
    dispute = store.get("dispute", path["dispute"])
    if dispute["status"] not in {"needs_response", "under_review"}:
        raise invalid("This dispute is already closed.")
    outcome = OUTCOMES.get(given.get("evidence", {}).get("uncategorized_text", ""), "under_review")
    if given.get("submit", True):
        dispute["status"] = outcome
        if outcome == "won":
            _balance(store, dispute, dispute["amount"], "adjustment", "dispute_reversal")
        store.tell("charge.dispute.updated" if outcome == "under_review" else "charge.dispute.closed", dispute)
    return dispute


def dispute_list(store: Store, given: Thing, path: Thing) -> list[Thing]:
    """GET /v1/disputes"""
    wanted = {name: given[name] for name in ("charge", "payment_intent") if name in given}
    return [one for one in store.all("dispute") if all(one[name] == value for name, value in wanted.items())]


def intent_get(store: Store, given: Thing, path: Thing) -> Thing:
    """GET /v1/payment_intents/{intent}"""
    return store.get("payment_intent", path["intent"])


def payment_list(store: Store, given: Thing, path: Thing) -> list[Thing]:
    """GET /v1/invoice_payments"""
    found = store.all("invoice_payment")
    for name in ("invoice", "status"):
        found = [one for one in found if name not in given or one[name] == given[name]]
    intent = given.get("payment", {}).get("payment_intent")
    return [one for one in found if intent is None or one["payment"]["payment_intent"] == intent]


def refund_create(store: Store, given: Thing, path: Thing) -> Thing:
    """POST /v1/refunds: up to what was taken and not given back."""
    intent = store.get("payment_intent", given.get("payment_intent", ""))
    taken = store.get("charge", intent["latest_charge"])
    left = taken["amount_captured"] - taken["amount_refunded"]
    amount = given.get("amount", left)
    if amount <= 0 or amount > left:
        raise invalid(f"Refund amount ({amount}) is greater than unrefunded amount on charge ({left})", param="amount")
    refund = made(
        "refund",
        amount=amount,
        created=store.now(),
        currency=taken["currency"],
        status="succeeded",
        charge=taken["id"],
        payment_intent=intent["id"],
        reason=given.get("reason"),
        metadata=given.get("metadata") or {},
    )
    taken["amount_refunded"] += amount
    taken["refunded"] = taken["amount_refunded"] == taken["amount"]
    store.add("re", refund)
    _balance(store, refund, -amount, "refund", "refund")
    store.tell("refund.created", refund)
    return refund


def refund_fail(store: Store, refund: Thing) -> None:
    """The customer's bank sends a refund back: the money is on the account's balance again."""
    refund["status"] = "failed"
    taken = store.get("charge", refund["charge"])
    taken["amount_refunded"] -= refund["amount"]
    taken["refunded"] = False
    _balance(store, refund, refund["amount"], "refund_failure", "refund_failure")
    store.tell("refund.failed", refund)


def refund_get(store: Store, given: Thing, path: Thing) -> Thing:
    """GET /v1/refunds/{refund}"""
    return store.get("refund", path["refund"])


def refund_list(store: Store, given: Thing, path: Thing) -> list[Thing]:
    """GET /v1/refunds"""
    wanted = {name: given[name] for name in ("charge", "payment_intent") if name in given}
    return [one for one in store.all("refund") if all(one[name] == value for name, value in wanted.items())]


def charge_list(store: Store, given: Thing, path: Thing) -> list[Thing]:
    """GET /v1/charges"""
    wanted = {name: given[name] for name in ("customer", "payment_intent") if name in given}
    return [one for one in store.all("charge") if all(one[name] == value for name, value in wanted.items())]


def balance_list(store: Store, given: Thing, path: Thing) -> list[Thing]:
    """GET /v1/balance_transactions"""
    wanted = {name: given[name] for name in ("currency", "source", "type") if name in given}
    return [
        one for one in store.all("balance_transaction") if all(one[name] == value for name, value in wanted.items())
    ]
