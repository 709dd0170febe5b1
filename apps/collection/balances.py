"""The amounts to compare: the amount of each object in our ledger and at Stripe.

Stored events are not used, so that lost and forged events are detected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

import stripe

from apps.accounts.models import Organisation
from apps.collection.amounts import amount_of
from apps.collection.lookup import ORGANISATION, list_all
from apps.collection.models import PushState, StripeCustomer, StripePush
from apps.collection.push_steps import INVOICE, metadata_value
from apps.invoicing.models import FactKind, Invoice
from apps.ledger.models import AccountKind, Entry
from apps.pricing.rating import exact_sum

INTENTS, REFUNDS = ("pi_",), ("re_", "pyr_")  # prefixes of the ids of payment intents and refunds
WITHDRAWN = {"needs_response", "under_review", "won", "lost"}
AT_STRIPE = (PushState.OPEN, PushState.PAID, PushState.VOID, PushState.UNCOLLECTIBLE)


class Amount(NamedTuple):
    """An amount with its currency and subject."""

    about: str
    currency: str
    amount: Decimal


Amounts = dict[str, Amount]  # by the id of the object at Stripe


def amount_add(found: Amounts, name: str, one: Amount) -> None:
    """Add an amount to the sum of the object `name`."""
    known = found.get(name)
    found[name] = one if known is None else one._replace(amount=exact_sum([known.amount, one.amount]))


class LedgerAmounts:
    """Amounts according to the ledger, by the id of the object at Stripe."""

    def paid(self) -> Amounts:
        """Return the amount paid for each payment intent."""
        return self._moved(AccountKind.BANK, INTENTS, "payment")

    def refunded(self) -> Amounts:
        """Return the refunds that did not fail."""
        out = self._moved(AccountKind.BANK, REFUNDS, FactKind.REFUNDED, "refund", FactKind.REFUND_FAILED, sign=-1)
        return {name: one for name, one in out.items() if one.amount}

    def disputed(self) -> Amounts:
        """Return the amounts withdrawn because of disputes, whatever the outcome."""
        return self._moved(AccountKind.BANK, (), FactKind.DISPUTED, sign=-1)

    def lost(self) -> Amounts:
        """Return the amounts of the disputes that were lost."""
        return self._moved(AccountKind.DISPUTED, (), FactKind.DISPUTE_LOST, sign=-1)

    def balance(self) -> Amounts:
        """Return the balance that our account at Stripe should have for each object. Amounts of 0 are left out."""
        found: Amounts = {}
        for some in (
            self.paid(),
            self._moved(AccountKind.BANK, REFUNDS, FactKind.REFUNDED, "refund", FactKind.REFUND_FAILED),
            self._moved(AccountKind.BANK, (), FactKind.DISPUTED, FactKind.DISPUTE_WON),
        ):
            for name, one in some.items():
                amount_add(found, name, one)
        return {name: one for name, one in found.items() if one.amount}

    def _moved(self, account: AccountKind, begins: tuple[str, ...], *kinds: str, sign: int = 1) -> Amounts:
        rows = Entry.objects.filter(account__kind=account, transaction__kind__in=[str(kind) for kind in kinds])
        found: Amounts = {}
        values = ("transaction__detail", "transaction__subject", "account__currency", "amount")
        for detail, subject, currency, amount in rows.order_by("id").values_list(*values).iterator():
            name = str(detail.get("reference", "")) if isinstance(detail, dict) else ""
            if name and name.startswith(begins or name):
                amount_add(found, name, Amount(subject, currency, amount.copy_negate() if sign < 0 else amount))
        return found


@dataclass
class StripeAmounts:
    """Amounts according to Stripe.

    Only our own customers and invoices are included, because the account may contain others.
    """

    client: stripe.StripeClient
    pushes: dict[str, StripePush] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = StripePush.objects.exclude(stripe_id="").select_related("invoice")
        self.pushes = {push.stripe_id: push for push in rows}

    @cached_property
    def customers(self) -> dict[str, str]:
        """Map the Stripe ids of our customers to the organisations in the customers' metadata."""
        ours = set(StripeCustomer.objects.values_list("customer_id", flat=True))
        there = {one.id: metadata_value(one, ORGANISATION) or "" for one in list_all(self.client.v1.customers, {})}
        known = {str(name) for name in Organisation.objects.values_list("pk", flat=True)}
        return {name: organisation for name, organisation in there.items() if name in ours or organisation in known}

    @cached_property
    def invoices(self) -> dict[str, Any]:
        """Return all our invoices at Stripe, including drafts, by id."""
        there = list_all(self.client.v1.invoices, {})
        wanted = {number for one in there if (number := metadata_value(one, INVOICE))}
        known = {str(pk) for pk in Invoice.objects.values_list("pk", flat=True)} & wanted
        ours = self._customers_ever
        return {one.id: one for one in there if metadata_value(one, INVOICE) in known or str(one.customer) in ours}

    @cached_property
    def _customers_ever(self) -> set[str]:
        return {*self.customers, *StripeCustomer.objects.values_list("customer_id", flat=True)}

    @cached_property
    def charges(self) -> dict[str, Any]:
        """Return all successful charges to our customers, by id."""
        there = list_all(self.client.v1.charges, {})
        return {one.id: one for one in there if str(one.customer) in self._customers_ever and one.status == "succeeded"}

    @cached_property
    def _intents(self) -> dict[str, Amount]:
        found = {}
        for one in list_all(self.client.v1.invoice_payments, {"status": "paid"}):
            if one.payment.payment_intent and str(one.invoice) in self.invoices:
                amount = self.amount(int(one.amount_paid or 0), self.invoices[str(one.invoice)].currency)
                found[str(one.payment.payment_intent)] = Amount(self.about(str(one.invoice)), *amount)
        return found

    def about(self, stripe_id: str) -> str:
        """Return our name for the invoice with this Stripe id."""
        push = self.pushes.get(stripe_id)
        return f"invoice {push.invoice.number}" if push is not None else f"invoice {stripe_id}, which is unknown here"

    @staticmethod
    def amount(minor: int, currency: str) -> tuple[str, Decimal]:
        """Return the currency and the decimal amount."""
        return currency.upper(), amount_of(minor, currency=currency.upper())

    def final(self) -> Amounts:
        """Return the totals of all invoices except drafts."""
        final = {name: one for name, one in self.invoices.items() if one.status != "draft"}
        return {name: Amount(self.about(name), *self.amount(one.total, one.currency)) for name, one in final.items()}

    def open(self) -> Amounts:
        """Return the open amounts of the invoices."""
        return {
            name: Amount(self.about(name), *self.amount(one.amount_remaining, one.currency))
            for name, one in self.invoices.items()
            if one.status == "open" and one.amount_remaining
        }

    def paid(self) -> Amounts:
        """Return the payments for invoices."""
        return dict(self._intents)

    def charged(self) -> Amounts:
        """Return the charges to customers, including charges without an invoice."""
        found: Amounts = {}
        for one in self.charges.values():
            name = str(one.payment_intent or one.id)
            known = self._intents.get(name)
            about = known.about if known is not None else f"customer {one.customer}"
            amount_add(found, name, Amount(about, *self.amount(one.amount_captured, one.currency)))
        return found

    def refunded(self) -> Amounts:
        """Return the refunds that succeeded."""
        return self._returned(self._refunds, {"succeeded"})

    def disputed(self, states: Iterable[str] = WITHDRAWN) -> Amounts:
        """Return the disputes whose state is one of `states`."""
        return self._returned(self._disputes, set(states))

    @cached_property
    def _refunds(self) -> list[Any]:
        return list_all(self.client.v1.refunds, {})

    @cached_property
    def _disputes(self) -> list[Any]:
        return list_all(self.client.v1.disputes, {})

    def _returned(self, there: list[Any], states: set[str]) -> Amounts:
        charged = self.charged()
        return {
            one.id: Amount(charged[name].about, *self.amount(one.amount, one.currency))
            for one in there
            if (name := str(one.payment_intent or one.charge)) in charged and one.status in states
        }

    def credit_notes(self) -> list[Any]:
        """Return the credit notes for our invoices, except void ones."""
        there = list_all(self.client.v1.credit_notes, {})
        return [one for one in there if str(one.invoice) in self.invoices and one.status != "void"]

    def balance(self) -> tuple[Amounts, set[str]]:
        """Return the sum of each object's balance transactions at Stripe, before fees, and the ids of converted
        objects.
        """
        about = {
            **{name: str(one.payment_intent or one.id) for name, one in self.charges.items()},
            **dict.fromkeys(self.refunded_ever()),
            **dict.fromkeys(self.disputed()),
        }
        found: Amounts = {}
        converted: set[str] = set()
        for one in list_all(self.client.v1.balance_transactions, {}):
            source = str(one.source)
            if source not in about:
                continue
            name = about[source] or source
            if getattr(one, "exchange_rate", None):
                converted.add(name)
            amount_add(found, name, Amount(name, *self.amount(one.amount, one.currency)))
        return {name: one for name, one in found.items() if one.amount and name not in converted}, converted

    def refunded_ever(self) -> Amounts:
        """Return the refunds in any state."""
        return self._returned(self._refunds, {str(one.status) for one in self._refunds})


def ledger_invoices() -> Amounts:
    """Return the amount that Stripe was asked to collect for each invoice."""
    found = {}
    for push in StripePush.objects.filter(state__in=AT_STRIPE).select_related("invoice"):
        if push.ordered is not None:
            currency = push.invoice.currency
            found[push.stripe_id] = Amount(
                f"invoice {push.invoice.number}", currency, amount_of(push.ordered, currency=currency)
            )
    return found


def ledger_open() -> Amounts:
    """Return the open amount of each invoice according to our database, without debts written off."""
    rows = StripePush.objects.filter(state__in=AT_STRIPE, invoice__open__gt=0).select_related("invoice")
    return {
        push.stripe_id: Amount(f"invoice {push.invoice.number}", push.invoice.currency, push.invoice.open)
        for push in rows
    }


def without(one: Amounts, other: set[str]) -> Amounts:
    """Return the amounts except those of the objects in `other`."""
    return {name: amount for name, amount in one.items() if name not in other}


def by_currency(amounts: Amounts) -> dict[str, list[Decimal]]:
    """Group the amounts by currency."""
    found: defaultdict[str, list[Decimal]] = defaultdict(list)
    for one in amounts.values():
        found[one.currency].append(one.amount)
    return found
