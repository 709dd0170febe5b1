"""Differences that are planted on either side, which the Stripe check must find."""

from __future__ import annotations

from collections.abc import Callable

from django.db import connection

from apps.collection.models import StripePush
from tests.stripe.double import customers, invoices, payments
from tests.stripe.double.answers import made
from tests.stripe.double.store import Thing
from tests.stripe.histories import History

Plant = Callable[[History], bool]  # False where the history has nothing to plant it in


def planted(history: History) -> str:
    """Plant one of those that are possible; its name, empty where there is nothing to plant one in."""
    names = sorted(PLANTS)
    history.chance.shuffle(names)
    return next((name for name in names if PLANTS[name](history)), "")


def _some(history: History, kind: str, **fields: object) -> Thing | None:
    found = [one for one in history.store.all(kind) if all(one[name] == value for name, value in fields.items())]
    return history.chance.choice(found) if found else None


def _sql(statement: str) -> bool:
    """As somebody would who gets round every guard of the database; True when it changed something."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement)
        count = cursor.rowcount
        cursor.execute("SET LOCAL session_replication_role = origin")
    return count > 0


def _charge_without_invoice(history: History) -> bool:
    known = _some(history, "customer", object="customer")
    if known is None:
        return False
    method = customers.card_made(history.store, "pm_card_visa")
    invoice = {"amount_remaining": 700, "currency": "eur", "customer": known["id"], "id": "in_none"}
    payments.charge(history.store, invoice, method)
    return True


def _other_amount(kind: str, field: str, **fields: object) -> Plant:
    def plant(history: History) -> bool:
        found = _some(history, kind, **fields)
        if found is not None:
            found[field] += 1
        return found is not None

    return plant


def _gone(kind: str) -> Plant:
    def plant(history: History) -> bool:
        found = _some(history, kind)
        if kind == "credit_note" and found is None:
            return False
        if found is not None:
            del history.store.objects[found["id"]]
        return found is not None

    return plant


def _second_invoice(history: History) -> bool:
    """A copy of an invoice of ours, made final at Stripe."""
    known = _some(history, "invoice")
    if known is None or "deleted" in history.store.objects[known["customer"]]:
        return False
    given = {"customer": known["customer"], "currency": "eur", "metadata": dict(known["metadata"])}
    copy = invoices.invoice_create(history.store, given, {})
    item = {"customer": known["customer"], "invoice": copy["id"], "amount": 900, "currency": "eur"}
    invoices.item_create(history.store, item, {})
    invoices.invoice_finalize(history.store, {"auto_advance": False}, {"invoice": copy["id"]})
    return True


def _second_customer(history: History) -> bool:
    known = _some(history, "customer", object="customer")
    if known is not None:
        customers.customer_create(history.store, {"name": "copy", "metadata": dict(known["metadata"])}, {})
    return known is not None


def _reopened(history: History) -> bool:
    found = _some(history, "invoice", status="void") or _some(history, "invoice", status="paid")
    if found is not None:
        found |= {"status": "open", "amount_remaining": 100}
    return found is not None


def _refund_unheard(history: History) -> bool:
    """A refund of which no event tells."""
    found = _some(history, "charge", status="succeeded", disputed=False, amount_refunded=0)
    if found is None:
        return False
    refund = made(
        "refund",
        amount=1,
        created=history.store.now(),
        currency="eur",
        status="succeeded",
        charge=found["id"],
        payment_intent=found["payment_intent"],
        metadata={},
    )
    history.store.add("re", refund)
    return True


def _push_forgotten(history: History) -> bool:
    return StripePush.objects.exclude(stripe_id="").exists() and _sql(
        "DELETE FROM billing_stripepush WHERE stripe_id <> ''"
    )


PLANTS: dict[str, Plant] = {
    "there: a charge without an invoice": _charge_without_invoice,
    "there: a charge of another amount": _other_amount("charge", "amount_captured", status="succeeded"),
    "there: a payment of another amount": _other_amount("invoice_payment", "amount_paid", status="paid"),
    "there: a refund of another amount": _other_amount("refund", "amount", status="succeeded"),
    "there: a dispute of another amount": _other_amount("dispute", "amount"),
    "there: an invoice of another amount": _other_amount("invoice", "total"),
    "there: a balance of another amount": _other_amount("balance_transaction", "amount"),
    "there: a credit note of another amount": _other_amount("credit_note", "amount"),
    "there: a balance that is gone": _gone("balance_transaction"),
    "there: a credit note that is gone": _gone("credit_note"),
    "there: a second invoice": _second_invoice,
    "there: a second customer": _second_customer,
    "there: an invoice open again": _reopened,
    "there: a refund nobody heard of": _refund_unheard,
    "here: a payment that is gone": lambda _: _sql(
        "DELETE FROM ledger_entry WHERE account_id IN (SELECT id FROM ledger_account WHERE kind = 'bank') AND "
        "transaction_id IN (SELECT id FROM ledger_transaction WHERE detail ->> 'reference' LIKE 'pi_%')"
    ),
    "here: a payment of another amount": lambda _: _sql(
        "UPDATE ledger_entry SET amount = amount + 0.01 WHERE "
        "account_id IN (SELECT id FROM ledger_account WHERE kind = 'bank') AND "
        "transaction_id IN (SELECT id FROM ledger_transaction WHERE detail ->> 'reference' LIKE 'pi_%')"
    ),
    "here: a refund that is gone": lambda _: _sql(
        "DELETE FROM ledger_entry WHERE account_id IN (SELECT id FROM ledger_account WHERE kind = 'bank') AND "
        "transaction_id IN (SELECT id FROM ledger_transaction WHERE detail ->> 'reference' LIKE 're_%')"
    ),
    "here: a push that is forgotten": _push_forgotten,
    "here: a customer that is forgotten": lambda _: _sql("DELETE FROM billing_stripecustomer"),
    "here: less open than there": lambda _: _sql(
        "UPDATE billing_invoice SET open = open - 0.01 WHERE open > 0.01 AND id IN "
        "(SELECT invoice_id FROM billing_stripepush WHERE state = 'open')"
    ),
}
