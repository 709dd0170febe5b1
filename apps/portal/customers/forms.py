"""What an administrator enters about a customer's money."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

from django import forms

from apps.invoicing.forms import AmountField, MoneyForm
from apps.invoicing.models import BillingProfile
from apps.invoicing.models.invoices import TaxScheme
from apps.invoicing.services.crediting import CreditLine
from apps.pricing.rating import decimal_text
from apps.pricing.rating.decimals import decimal_of

REASON = 300  # characters, as papers print it


class ReasonField(forms.CharField):
    """Why: printed on the paper, kept in the audit log."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=REASON, label="Why", **options)


class OnceForm(MoneyForm):
    """A form whose `key` makes it one act however often it is sent."""

    key = forms.UUIDField(widget=forms.HiddenInput, initial=uuid4)

    def clean(self) -> dict[str, Any]:
        """A fault of the hidden key is one of the whole form."""
        values = super().clean() or {}
        if "key" in self.errors:
            self.add_error(None, "Open this page anew: the form has lost its key.")
        return values


class GrantForm(OnceForm):
    """A credit."""

    amount = AmountField(label="Credit")
    reason = ReasonField(help_text="Shown to the customer.")
    expires = forms.DateField(
        required=False,
        label="Expires at the end of",
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="A day in UTC.",
    )

    def expires_at(self) -> datetime | None:
        """The first instant at which nothing of it is left."""
        day = self.cleaned_data["expires"]
        return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)

    def clean_expires(self) -> Any:
        """A day that has a day after it."""
        day = self.cleaned_data["expires"]
        if day is not None and day.year > 9998:
            raise forms.ValidationError("Choose a day before the year 9999.")
        return day


class CreditEndForm(forms.Form):
    """That a credit was a mistake."""

    credit = forms.UUIDField(widget=forms.HiddenInput)
    reason = ReasonField(help_text="Shown to the customer.")


class RefundForm(OnceForm):
    """Money of the balance that goes back."""

    amount = AmountField(label="Refund")
    reference = forms.CharField(max_length=120, label="Reference of the transfer", help_text="Kept in the ledger.")


class TaxForm(forms.Form):
    """The tax that applies to a customer, and how long an invoice may wait."""

    tax_scheme = forms.ChoiceField(label="Tax scheme", choices=TaxScheme.choices)
    tax_percent = forms.CharField(
        label="Tax rate",
        max_length=10,
        help_text="With at most two places; 0 unless the scheme is standard.",
    )
    payment_days = forms.IntegerField(label="Days to pay", min_value=0, max_value=365)

    @classmethod
    def of(cls, profile: BillingProfile) -> TaxForm:
        """The form as the profile stands."""
        percent = decimal_text((profile.tax_rate * 100).normalize())
        return cls(
            initial={"tax_scheme": profile.tax_scheme, "tax_percent": percent, "payment_days": profile.payment_days}
        )

    def clean_tax_percent(self) -> Decimal:
        """The rate as a share."""
        try:
            percent = decimal_of(str(self.cleaned_data["tax_percent"]).replace("%", "").strip(), places=2)
        except ValueError as error:
            raise forms.ValidationError("Enter a rate in per cent such as 19 or 7.5.") from error
        if not 0 <= percent < 100:
            raise forms.ValidationError("A tax rate is at least 0 and less than 100 %.")
        return percent.scaleb(-2)


class CreditNoteForm(MoneyForm):
    """What is taken back of an invoice: an amount for each line; all lines empty means everything that is left."""

    reason = ReasonField(help_text="Printed on the credit note.")

    def __init__(self, *values: Any, lines: list[CreditLine], **options: Any) -> None:
        super().__init__(*values, **options)
        self.lines = lines
        for line in lines:
            if line.left > 0:
                box = AmountField(required=False, label=f"Credit for line {line.number}, {line.title}")
                box.currency = self.chosen
                self.fields[f"line_{line.number}"] = box

    def parts(self) -> dict[int, Decimal] | None:
        """The amounts by line; None for everything that is left."""
        found = {line.number: self.cleaned_data.get(f"line_{line.number}") for line in self.lines}
        return {number: amount for number, amount in found.items() if amount} or None


class EndForm(forms.Form):
    """What becomes of an invoice that will not be paid."""

    action = forms.ChoiceField(choices=[("void", "void"), ("write-off", "write off"), ("collection", "collection")])
    reason = ReasonField(required=False)
