"""Which operations of the description the double carries out."""

from __future__ import annotations

from collections.abc import Callable

from tests.stripe.double import customers, invoices, notes, payments, sessions
from tests.stripe.double.store import Store, Thing


def event_list(store: Store, given: Thing, path: Thing) -> list[Thing]:
    """GET /v1/events"""
    kinds = given.get("types") or ([given["type"]] if "type" in given else None)
    return [one for one in reversed(store.events) if kinds is None or one["type"] in kinds]


def event_get(store: Store, given: Thing, path: Thing) -> Thing:
    """GET /v1/events/{id}"""
    return store.get("event", path["id"])


ROUTES: dict[tuple[str, str], Callable[[Store, Thing, Thing], Thing | list[Thing]]] = {
    ("POST", "/v1/customers"): customers.customer_create,
    ("GET", "/v1/customers"): customers.customer_list,
    ("GET", "/v1/customers/{customer}"): customers.customer_get,
    ("POST", "/v1/customers/{customer}"): customers.customer_update,
    ("DELETE", "/v1/customers/{customer}"): customers.customer_delete,
    ("GET", "/v1/customers/{customer}/payment_methods"): customers.method_list,
    ("GET", "/v1/customers/{customer}/tax_ids"): customers.tax_id_list,
    ("POST", "/v1/customers/{customer}/tax_ids"): customers.tax_id_create,
    ("GET", "/v1/payment_methods/{payment_method}"): customers.method_get,
    ("POST", "/v1/payment_methods/{payment_method}/attach"): customers.method_attach,
    ("POST", "/v1/payment_methods/{payment_method}/detach"): customers.method_detach,
    ("POST", "/v1/checkout/sessions"): sessions.checkout_create,
    ("GET", "/v1/checkout/sessions/{session}"): sessions.checkout_get,
    ("POST", "/v1/checkout/sessions/{session}/expire"): sessions.checkout_expire,
    ("GET", "/v1/setup_intents/{intent}"): sessions.intent_get,
    ("POST", "/v1/billing_portal/sessions"): sessions.portal_create,
    ("POST", "/v1/credit_notes"): notes.note_create,
    ("GET", "/v1/credit_notes"): notes.note_list,
    ("POST", "/v1/billing/meter_events"): notes.meter_event_create,
    ("POST", "/v1/invoiceitems"): invoices.item_create,
    ("GET", "/v1/invoiceitems"): invoices.item_list,
    ("POST", "/v1/invoices"): invoices.invoice_create,
    ("GET", "/v1/invoices"): invoices.invoice_list,
    ("GET", "/v1/invoices/{invoice}"): invoices.invoice_get,
    ("DELETE", "/v1/invoices/{invoice}"): invoices.invoice_delete,
    ("POST", "/v1/invoices/{invoice}/finalize"): invoices.invoice_finalize,
    ("POST", "/v1/invoices/{invoice}/pay"): invoices.invoice_pay,
    ("POST", "/v1/invoices/{invoice}/send"): invoices.invoice_send,
    ("POST", "/v1/invoices/{invoice}/void"): invoices.invoice_void,
    ("POST", "/v1/invoices/{invoice}/mark_uncollectible"): invoices.invoice_uncollectible,
    ("GET", "/v1/invoice_payments"): payments.payment_list,
    ("GET", "/v1/payment_intents/{intent}"): payments.intent_get,
    ("POST", "/v1/refunds"): payments.refund_create,
    ("GET", "/v1/refunds"): payments.refund_list,
    ("GET", "/v1/refunds/{refund}"): payments.refund_get,
    ("GET", "/v1/charges"): payments.charge_list,
    ("GET", "/v1/balance_transactions"): payments.balance_list,
    ("GET", "/v1/disputes"): payments.dispute_list,
    ("GET", "/v1/disputes/{dispute}"): payments.dispute_get,
    ("POST", "/v1/disputes/{dispute}"): payments.dispute_update,
    ("GET", "/v1/events"): event_list,
    ("GET", "/v1/events/{id}"): event_get,
}
