"""Stripe as a payment provider."""

from __future__ import annotations

from decimal import Decimal

from django.conf import settings

from apps.accounts.problems import Problem
from apps.collection.cards import is_test
from apps.collection.models import StripeCall, StripePush
from apps.currencies import places_of
from apps.invoicing.models import Invoice
from apps.invoicing.payments import Instructions
from apps.pricing.rating import CONTEXT

# Minimum charges; Stripe would add a smaller amount to the customer's balance there.
SMALLEST = {
    "AUD": "0.5",
    "CAD": "0.5",
    "CHF": "0.5",
    "CZK": "15",
    "DKK": "2.5",
    "EUR": "0.5",
    "GBP": "0.3",
    "HKD": "4",
    "JPY": "50",
    "NOK": "3",
    "NZD": "0.5",
    "PLN": "2",
    "SEK": "3",
    "SGD": "0.5",
    "USD": "0.5",
}


class Stripe:
    """Collects invoices through Stripe, and reports payments."""

    name = "stripe"

    def collects(self, *, due: Decimal, currency: str) -> bool:
        """Return whether Stripe can collect the amount; False if no API key is set."""
        if not settings.STRIPE_API_KEY or currency not in SMALLEST or due < Decimal(SMALLEST[currency]):
            return False
        return not CONTEXT.remainder(due, Decimal(1).scaleb(-places_of(currency)))

    def instructions(self, invoice: Invoice) -> Instructions:
        push = StripePush.objects.filter(invoice=invoice).first()
        url = push.hosted_url if push else ""
        text = "Pay by card on Stripe's page." if url else "The payment page is being prepared. Reload in a minute."
        if is_test():
            text += " This is a sandbox: no card is charged and no money moves."
        return Instructions(title="Pay by card", text=text, reference=invoice.number, url=url or None)

    def receipt_check(self, invoice: Invoice, *, amount: Decimal, reference: str) -> str:
        if amount <= 0 or not reference.strip():
            raise Problem(
                422, "Not recorded", "Enter the amount received and the payment reference.", kind="payment-reference"
            )
        return reference.strip()[:120]

    def change_check(self, invoice: Invoice) -> None:
        if StripeCall.objects.filter(invoice=invoice, settled_at=None).exists():
            raise Problem(
                409,
                "Stripe has not responded yet",
                f"The outcome of a call to Stripe for invoice {invoice.number} is unknown, so the "
                "customer's card may have been charged. Takt checks the outcome every minute. Try again after the next check.",
                kind="collection-unsettled",
                retry_after=60,
            )
