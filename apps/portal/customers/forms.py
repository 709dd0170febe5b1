"""Forms for administrators to change a customer or an invoice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

from django import forms

from apps.invoicing.forms import AmountField, MoneyForm
from apps.invoicing.models import BillingProfile
from apps.invoicing.models.invoices import TaxScheme
from apps.invoicing.services.credit_lines import CreditLine
from apps.pricing.rating import decimal_text, exact_sum
from apps.pricing.rating.decimals import decimal_of

REASON_MAX = 300  # characters, as printed on documents


class ReasonField(forms.CharField):
    """A field for a reason, which is printed on the document and kept in the audit log."""

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=REASON_MAX, label="Reason", **options)


class OnceForm(MoneyForm):
    """A form with a hidden `key`. Repeated submissions with the same key count as one operation."""

    key = forms.UUIDField(widget=forms.HiddenInput, initial=uuid4)

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if "key" in self.errors:
            self.add_error(None, "This form is incomplete. Reload the page and try again.")
        return values


class GrantForm(OnceForm):
    """A form to grant a credit."""

    amount = AmountField(label="Amount")
    reason = ReasonField(help_text="Shown to the customer.")
    expires = forms.DateField(
        required=False,
        label="Last day",
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="Usable until the end of this day (UTC). Leave empty for no expiry.",
    )

    def expires_at(self) -> datetime | None:
        """Return the instant at which the credit expires; None if the credit does not expire."""
        day = self.cleaned_data["expires"]
        return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC) + timedelta(days=1)

    def clean_expires(self) -> Any:
        # The next day must exist.
        day = self.cleaned_data["expires"]
        if day is not None and day.year > 9998:
            raise forms.ValidationError("Choose a day before the year 9999.")
        return day


class CreditEndForm(forms.Form):
    """A form to end a credit early."""

    credit = forms.UUIDField(widget=forms.HiddenInput)
    reason = ReasonField(help_text="Shown to the customer.")

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if "credit" in self.errors:
            self.add_error(None, "Choose one of the customer's credits.")
        return values


class RefundForm(OnceForm):
    """A form to refund the balance by bank transfer."""

    amount = AmountField(label="Amount")
    reference = forms.CharField(max_length=120, label="Transfer reference", help_text="Stored in the ledger.")


class TaxForm(forms.Form):
    """A form to set a customer's tax and payment terms."""

    tax_scheme = forms.ChoiceField(label="Tax scheme", choices=TaxScheme.choices)
    tax_percent = forms.CharField(
        label="Tax rate",
        max_length=10,
        help_text="At most two decimal places; 0 unless the scheme is standard.",
    )
    payment_days = forms.IntegerField(label="Payment days", min_value=0, max_value=365)

    @classmethod
    def of(cls, profile: BillingProfile) -> TaxForm:
        """Return the form, filled in with the values of the profile."""
        percent = decimal_text((profile.tax_rate * 100).normalize())
        return cls(
            initial={"tax_scheme": profile.tax_scheme, "tax_percent": percent, "payment_days": profile.payment_days}
        )

    def clean_tax_percent(self) -> Decimal:
        """Return the rate as a share: 0.19 for 19 %."""
        try:
            percent = decimal_of(str(self.cleaned_data["tax_percent"]).replace("%", "").strip(), places=2)
        except ValueError as error:
            raise forms.ValidationError("Enter a percentage such as 19 or 7.5.") from error
        if not 0 <= percent < 100:
            raise forms.ValidationError("Enter a rate from 0 % to less than 100 %.")
        return percent.scaleb(-2)


class CreditNoteForm(MoneyForm):
    """A form to credit parts of an invoice, with an amount for each line.

    If all fields are empty, the whole remaining amount is credited.
    """

    reason = ReasonField(help_text="Printed on the credit note.")
    left = forms.DecimalField(required=False, max_digits=72, decimal_places=40, widget=forms.HiddenInput)

    def __init__(self, *values: Any, lines: list[CreditLine], **options: Any) -> None:
        super().__init__(*values, **options)
        self.lines = lines
        self.fields["left"].initial = decimal_text(exact_sum(line.left for line in lines))
        for line in lines:
            if line.left > 0:
                box = AmountField(required=False, label=f"Credit for line {line.number}, {line.title}")
                box.currency = self.chosen
                self.fields[f"line_{line.number}"] = box

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        for line in self.lines:
            if values.get(f"line_{line.number}") == 0:
                self.add_error(f"line_{line.number}", "Enter an amount above 0, or leave the box empty.")
        return values

    def expected_left(self) -> Decimal | None:
        """Return the creditable amount that the page showed; None if the form states no amount."""
        left: Decimal | None = self.cleaned_data.get("left")
        return left

    def parts(self) -> dict[int, Decimal] | None:
        """Return the amounts by line number; None to credit all remaining amounts."""
        found = {line.number: self.cleaned_data.get(f"line_{line.number}") for line in self.lines}
        return {number: amount for number, amount in found.items() if amount is not None} or None


class CloseForm(forms.Form):
    """A form to close an invoice without payment."""

    action = forms.ChoiceField(
        choices=[("void", "Void"), ("write-off", "Write off"), ("collection", "Send to collection")],
        error_messages={"required": "Choose an action.", "invalid_choice": "Choose one of the actions."},
    )
    reason = ReasonField(required=False)
