"""The interface for payment providers, and the provider for bank transfers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from apps.accounts.problems import Problem
from apps.figures import money_exact_format
from apps.invoicing.models import Invoice
from apps.pricing.amounts import amount_check


@dataclass(frozen=True)
class Instructions:
    """Instructions for paying an invoice."""

    title: str
    text: str
    reference: str
    url: str | None = None
    message: str = ""  # what pages and mails say instead of the text that issued PDFs contain


class PaymentProvider(Protocol):
    """A payment provider, which collects money for invoices and reports received payments."""

    name: str

    def instructions(self, invoice: Invoice) -> Instructions:
        """Return the instructions for paying an invoice."""
        ...

    def collects(self, *, due: Decimal, currency: str) -> bool:
        """Return whether the provider collects new invoices of this amount and currency."""
        ...

    def receipt_check(self, invoice: Invoice, *, amount: Decimal, reference: str) -> str:
        """Return the reference to store for a received payment. Raises Problem if the payment cannot be recorded."""
        ...

    def change_check(self, invoice: Invoice) -> None:
        """Raise Problem (409) if it is unknown whether the provider has charged the invoice."""
        ...


class BankTransfer:
    """Payment by bank transfer. An administrator records received payments."""

    name = "bank-transfer"

    def collects(self, *, due: Decimal, currency: str) -> bool:
        return True

    def instructions(self, invoice: Invoice) -> Instructions:
        amount = money_exact_format(invoice.open, invoice.shown_currency)
        return Instructions(
            title="Pay by bank transfer",
            text=f"Transfer {amount} by {invoice.due_at:%d %B %Y} and state the invoice number as the reference.",
            reference=invoice.number,
            message=(
                f"Transfer {amount} by {invoice.due_at:%d %B %Y} to the bank account that the operator of this installation "
                "has given you."
            ),
        )

    def receipt_check(self, invoice: Invoice, *, amount: Decimal, reference: str) -> str:
        amount_check(amount, currency=invoice.unit)
        if amount <= 0:
            raise Problem(
                422,
                "Invalid amount",
                f"Enter the amount received for invoice {invoice.number}; it must be above 0.",
                kind="payment-amount",
            )
        if not reference.strip():
            raise Problem(
                422, "Reference missing", "Enter the reference from the bank statement.", kind="payment-reference"
            )
        return reference.strip()[:120]

    def change_check(self, invoice: Invoice) -> None:
        """Do nothing. With bank transfers, no charge can be pending."""


# In order of precedence; bank transfer is the last, and always available.
PROVIDERS: dict[str, PaymentProvider] = {BankTransfer.name: BankTransfer()}


def provider_register(provider: PaymentProvider) -> None:
    """Add a payment provider. The provider added last takes precedence."""
    known = {name: one for name, one in PROVIDERS.items() if name != provider.name}
    PROVIDERS.clear()
    PROVIDERS.update({provider.name: provider, **known})


def provider_default(*, due: Decimal, currency: str) -> str:
    """Return the name of the provider for a new invoice."""
    return next(name for name, one in PROVIDERS.items() if one.collects(due=due, currency=currency))


def provider_of(invoice: Invoice) -> PaymentProvider:
    """Return the invoice's payment provider."""
    return PROVIDERS[invoice.provider]
