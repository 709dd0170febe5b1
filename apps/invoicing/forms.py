"""Form fields and forms for amounts of money."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from django import forms

from apps.accounts.problems import Problem
from apps.pricing.amounts import amount_typed, price_typed
from apps.pricing.rating import Currency


class AmountField(forms.CharField):
    """A field for an exact amount of money."""

    currency: Currency

    def __init__(self, **options: Any) -> None:
        super().__init__(max_length=40, **options)
        self.widget.attrs |= {"inputmode": "decimal", "class": "form-control"}

    def clean(self, value: object) -> Decimal | None:
        text = str(super().clean(value))
        if not text:
            return None
        try:
            return self.read(text)
        except Problem as refusal:
            raise forms.ValidationError(refusal.detail) from refusal

    def read(self, text: str) -> Decimal:
        """Return the amount in the text. Raises Problem if the text is invalid."""
        return amount_typed(text, currency=self.currency)


class PriceField(AmountField):
    """A field for a unit price, which may have more decimal places than the currency."""

    def read(self, text: str) -> Decimal:
        """Return the price in the text. Raises Problem if the text is invalid."""
        return price_typed(text)


class CurrencyField(forms.ChoiceField):
    """A field to choose a currency. The default is the first currency offered."""

    first = ""

    def clean(self, value: object) -> str:
        return str(super().clean(value or self.first))


class MoneyForm(forms.Form):
    """A form whose amounts are all in the chosen currency."""

    currency = CurrencyField(label="Currency")

    def __init__(self, *values: Any, currencies: Sequence[Currency], **options: Any) -> None:
        super().__init__(*values, **options)
        choice = self.fields["currency"]
        assert isinstance(choice, CurrencyField)
        choice.choices, choice.first = [(one.code, one.code) for one in currencies], currencies[0].code
        self.several = len(currencies) > 1
        wanted = self.data.get("currency") or self.initial.get("currency")
        self.chosen = next((one for one in currencies if one.code == wanted), currencies[0])
        for field in self.fields.values():
            if isinstance(field, AmountField):
                field.currency = self.chosen


class PaymentForm(MoneyForm):
    """The form to record a received payment."""

    amount = AmountField()
    reference = forms.CharField(max_length=120, widget=forms.TextInput(attrs={"class": "form-control"}))
    overpaid = forms.BooleanField(required=False)


class ProfileForm(forms.Form):
    """The form for an organisation's billing address."""

    legal_name = forms.CharField(
        max_length=200,
        required=False,
        label="Name on invoices",
        widget=forms.TextInput(attrs={"class": "form-control"}),
    )
    address = forms.CharField(
        max_length=600, required=False, widget=forms.Textarea(attrs={"class": "form-control", "rows": 3})
    )
    tax_id = forms.CharField(
        max_length=40, required=False, label="Tax number", widget=forms.TextInput(attrs={"class": "form-control"})
    )
