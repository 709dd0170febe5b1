"""How invoices are paid: an interface, and bank transfer as its first form."""

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
    """What a customer is told: words, and the reference to give."""

    title: str
    text: str
    reference: str
    url: str | None = None


class PaymentProvider(Protocol):
    """What takes money for invoices. A provider never decides amounts; it is told them and answers with what came in."""

    name: str

    def instructions(self, invoice: Invoice) -> Instructions:
        """How to pay this invoice."""
        ...

    def collects(self, *, due: Decimal, currency: str) -> bool:
        """True when new invoices about so much are to be paid this way."""
        ...

    def receipt_check(self, invoice: Invoice, *, amount: Decimal, reference: str) -> str:
        """The reference to store for money that came in. Raises Problem when it cannot be recorded so."""
        ...

    def change_check(self, invoice: Invoice) -> None:
        """Raises Problem (409) while the provider may have charged the invoice and its answer is not known."""
        ...


class BankTransfer:
    """The customer transfers, an administrator sees the money arrive and marks the invoice paid."""

    name = "bank-transfer"

    def collects(self, *, due: Decimal, currency: str) -> bool:
        return True

    def instructions(self, invoice: Invoice) -> Instructions:
        amount = money_exact_format(invoice.open, invoice.shown_currency)
        return Instructions(
            title="Pay by bank transfer",
            text=f"Transfer {amount} by {invoice.due_at:%d %B %Y} and give the number as reference.",
            reference=invoice.number,
        )

    def receipt_check(self, invoice: Invoice, *, amount: Decimal, reference: str) -> str:
        amount_check(amount, currency=invoice.unit)
        if amount <= 0:
            raise Problem(
                422,
                "No such amount",
                f"Enter what arrived for invoice {invoice.number}: more than 0.",
                kind="payment-amount",
            )
        if not reference.strip():
            raise Problem(
                422, "Reference missing", "Enter the reference of the bank statement.", kind="payment-reference"
            )
        return reference.strip()[:120]

    def change_check(self, invoice: Invoice) -> None:
        """A transfer is recorded by hand, so nothing is ever under way."""


# Asked in this order; others put themselves before bank transfer, which always serves.
PROVIDERS: dict[str, PaymentProvider] = {BankTransfer.name: BankTransfer()}


def provider_register(provider: PaymentProvider) -> None:
    """Add a provider; it is asked before those that are known."""
    known = {name: one for name, one in PROVIDERS.items() if name != provider.name}
    PROVIDERS.clear()
    PROVIDERS.update({provider.name: provider, **known})


def provider_default(*, due: Decimal, currency: str) -> str:
    """The name of the provider for a new invoice about `due`."""
    return next(name for name, one in PROVIDERS.items() if one.collects(due=due, currency=currency))


def provider_of(invoice: Invoice) -> PaymentProvider:
    """The provider that the invoice was issued with."""
    return PROVIDERS[invoice.provider]
