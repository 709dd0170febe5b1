"""The pages that Stripe hosts, as plain forms: Checkout, an invoice, the portal; and a desk to play the other side."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape
from urllib.parse import parse_qsl

from tests.stripe.double import customers, invoices, payments, sessions
from tests.stripe.double.errors import Refused
from tests.stripe.double.store import Store, Thing

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}"
    ".sandbox{background:#ffe8b3;border:1px solid #b37700;padding:.5rem 1rem;border-radius:6px}.error{color:#a00000}"
    "label{display:block;margin:.8rem 0}input{font:inherit;padding:.4rem;width:100%;box-sizing:border-box}"
    "button{font:inherit;padding:.4rem 1rem;margin:.2rem .4rem .2rem 0}table{width:100%;border-collapse:collapse}"
    "td,th{text-align:left;padding:.3rem;border-bottom:1px solid #ccc}td form{display:inline}"
)
BANNER = (
    '<p class="sandbox" role="note"><strong>Sandbox.</strong> This page stands in for one of Stripe\'s. '
    "No card is charged and no money moves.</p>"
)
CARD = (
    '<label>Card number <input name="card" inputmode="numeric" autocomplete="off" value="4242 4242 4242 4242" required>'
    "</label><p>4242 4242 4242 4242 pays, 4000 0000 0000 0341 is kept and then declines, 4000 0000 0000 0002 declines at "
    "once and is not kept, 4000 0000 0000 0259 is disputed after it has paid.</p>"
)
Form = dict[str, str]


class Elsewhere(Exception):
    """The browser is sent to another address."""


def served(store: Store, method: str, path: str, body: str) -> str:
    """The page's HTML. Raises Elsewhere, or Refused (404) for what is not there."""
    for pattern, page in PAGES:
        found = re.fullmatch(pattern, path)
        if found:
            return page(
                store, found.group(1) if found.groups() else "", dict(parse_qsl(body)) if method == "POST" else {}
            )
    raise Refused(404, "invalid_request_error", "There is no such page.", is_saved=False)


def _page(title: str, content: str, *, error: str = "") -> str:
    wrong = f'<p class="error" role="alert">{escape(error)}</p>' if error else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)} - sandbox</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style></head>"
        f"<body><main>{BANNER}<h1>{escape(title)}</h1>{wrong}{content}</main></body></html>"
    )


def _form(action: str, content: str, button: str, **hidden: str) -> str:
    fields = "".join(f'<input type="hidden" name="{name}" value="{escape(one)}">' for name, one in hidden.items())
    return f'<form method="post" action="{action}">{fields}{content}<button>{escape(button)}</button></form>'


def _card(form: Form) -> str:
    number = re.sub(r"\D", "", form.get("card", ""))
    if number not in customers.NUMBERS:
        raise Refused(402, "card_error", "Your card number is incorrect.", code="incorrect_number")
    return customers.NUMBERS[number]


def checkout_page(store: Store, name: str, form: Form) -> str:
    """Checkout in setup mode."""
    session, error = store.get("checkout.session", name), ""
    if form:
        try:
            sessions.checkout_complete(store, session, _card(form))
            raise Elsewhere(session["success_url"].replace("{CHECKOUT_SESSION_ID}", name))
        except Refused as refusal:
            error = str(refusal)
    if session["status"] != "open":
        return _page("This session is over", f"<p>It is {session['status']}.</p>")
    back = (
        f'<p><a href="{escape(session["cancel_url"])}">Back without adding a card</a></p>'
        if session["cancel_url"]
        else ""
    )
    return _page("Save a card", _form(f"/hosted/checkout/{name}", CARD, "Save card") + back, error=error)


def _money(minor: int, currency: str) -> str:
    return f"{minor / 100:.2f} {currency.upper()}"


def invoice_page(store: Store, name: str, form: Form) -> str:
    """An invoice: its lines, and a form to pay it."""
    invoice, error = store.get("invoice", name), ""
    if form:
        try:
            _card_charge(store, invoice, _card(form))
        except Refused as refusal:
            error = str(refusal)
    rows = "".join(
        f"<tr><td>{escape(one['description'] or '')}</td><td>{_money(one['amount'], one['currency'])}</td></tr>"
        for one in invoice["lines"]["data"]
    )
    state = f"<p>State: <strong>{invoice['status']}</strong></p>"
    facts = f"<p>{escape(invoice['description'] or '')}</p><table>{rows}</table>{state}"
    if invoice["status"] != "open":
        return _page("Invoice " + str(invoice["number"]), facts)
    button = f"Pay {_money(invoice['amount_remaining'], invoice['currency'])}"
    return _page("Pay an invoice", facts + _form(f"/hosted/invoices/{name}", CARD, button), error=error)


def _card_charge(store: Store, invoice: Thing, card: str) -> None:
    """A card that is declined whatever is asked of it fails as an attempt to pay, since it is charged before it is kept."""
    if card in customers.NEVER_KEPT and invoice["status"] == "open":
        invoices.invoice_attempt(store, invoice, customers.card_made(store, card))
        return
    method = customers.card_attach(store, card, invoice["customer"])
    invoices.invoice_pay(store, {"payment_method": method["id"]}, {"invoice": invoice["id"]})


def portal_page(store: Store, name: str, form: Form) -> str:
    """Cards, the one that is charged, and tax ids."""
    session, error = store.get("billing_portal.session", name), ""
    owner, place = session["customer"], f"/hosted/portal/{name}"
    try:
        _portal_act(store, owner, form)
    except Refused as refusal:
        error = str(refusal)
    default = store.get("customer", owner)["invoice_settings"]["default_payment_method"]
    rows = "".join(
        f"<tr><td>{one['card']['brand']} {one['card']['last4']}{' (default)' if one['id'] == default else ''}</td><td>"
        + _form(place, "", f"Make {one['card']['last4']} the default", act="default", method=one["id"])
        + _form(place, "", f"Remove {one['card']['last4']}", act="remove", method=one["id"])
        + "</td></tr>"
        for one in customers.method_list(store, {}, {"customer": owner})
    )
    taxes = "".join(f"<li>{escape(one['value'])}</li>" for one in customers.tax_id_list(store, {}, {"customer": owner}))
    vat = '<label>VAT number <input name="value" required></label>'
    back = f'<p><a href="{escape(session["return_url"] or "/")}">Back to Takt</a></p>'
    return _page(
        "Cards and tax ids",
        f"<table>{rows}</table>"
        + _form(place, CARD, "Add card", act="add")
        + f"<h2>Tax ids</h2><ul>{taxes}</ul>"
        + _form(place, vat, "Add tax id", act="tax")
        + back,
        error=error,
    )


def _portal_act(store: Store, owner: str, form: Form) -> None:
    act = form.get("act", "")
    if act == "add":
        form = {"act": "default", "method": customers.card_attach(store, _card(form), owner)["id"]}
    if form.get("act") == "default":
        chosen = {"invoice_settings": {"default_payment_method": form["method"]}}
        customers.customer_update(store, chosen, {"customer": owner})
    elif act == "remove":
        customers.method_detach(store, {}, {"payment_method": form["method"]})
    elif act == "tax":
        customers.tax_id_create(store, {"type": "eu_vat", "value": form["value"]}, {"customer": owner})


def desk_page(store: Store, name: str, form: Form) -> str:
    """Refund what was paid, dispute it, decide a dispute: what a bank or a person at Stripe's dashboard does."""
    error = ""
    try:
        _desk_act(store, form)
    except Refused as refusal:
        error = str(refusal)
    rows = "".join(_desk_row(store, one) for one in store.all("invoice"))
    table = f"<table><tr><th>Invoice</th><th>State</th><th>Total</th><th>What may happen</th></tr>{rows}</table>"
    return _page("The other side", table if rows else "<p>No invoice has been brought here yet.</p>", error=error)


def _desk_row(store: Store, invoice: Thing) -> str:
    buttons = ""
    for payment in payments.payment_list(store, {"invoice": invoice["id"], "status": "paid"}, {}):
        intent = payment["payment"]["payment_intent"]
        buttons += _form("/", "", "Refund", act="refund", intent=intent) + _form(
            "/", "", "Dispute", act="dispute", intent=intent
        )
        for one in payments.dispute_list(store, {"payment_intent": intent}, {}):
            if one["status"] == "needs_response":
                buttons += _form("/", "", "Dispute is won", act="won", dispute=one["id"])
                buttons += _form("/", "", "Dispute is lost", act="lost", dispute=one["id"])
    link = f'<a href="/hosted/invoices/{invoice["id"]}">{escape(invoice["description"] or invoice["id"])}</a>'
    total = _money(invoice["total"], invoice["currency"])
    return f"<tr><td>{link}</td><td>{invoice['status']}</td><td>{total}</td><td>{buttons}</td></tr>"


def _desk_act(store: Store, form: Form) -> None:
    act = form.get("act", "")
    if act == "refund":
        payments.refund_create(store, {"payment_intent": form["intent"]}, {})
    elif act == "dispute":
        intent = store.get("payment_intent", form["intent"])
        payments.dispute_open(store, store.get("charge", intent["latest_charge"]))
    elif act in {"won", "lost"}:
        text = {"won": "winning_evidence", "lost": "losing_evidence"}[act]
        given = {"evidence": {"uncategorized_text": text}, "submit": True}
        payments.dispute_update(store, given, {"dispute": form["dispute"]})


PAGES: tuple[tuple[str, Callable[[Store, str, Form], str]], ...] = (
    (r"/hosted/checkout/([\w]+)", checkout_page),
    (r"/hosted/invoices/([\w]+)", invoice_page),
    (r"/hosted/portal/([\w]+)", portal_page),
    (r"/", desk_page),
)
