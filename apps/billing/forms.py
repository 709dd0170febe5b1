"""What people enter about money."""

from __future__ import annotations

from decimal import Decimal

from django import forms

from apps.pricing.rating.decimals import decimal_of


class AmountField(forms.CharField):
    """A decimal with at most so many places, never a float."""

    def __init__(self, *, places: int = 2, **options: object) -> None:
        super().__init__(max_length=40, **options)  # type: ignore[arg-type]
        self.places = places
        self.widget.attrs |= {"inputmode": "decimal", "class": "form-control"}

    def clean(self, value: object) -> Decimal | None:
        text = str(super().clean(value)).replace(",", "").strip()
        if not text:
            return None
        try:
            amount = decimal_of(text, places=self.places)
        except ValueError as error:
            raise forms.ValidationError(
                f"Enter an amount such as 250.00, with at most {self.places} places."
            ) from error
        if amount < 0:
            raise forms.ValidationError("Enter an amount of 0 or more.")
        return amount


class PaymentForm(forms.Form):
    """That money has arrived."""

    amount = AmountField()
    reference = forms.CharField(max_length=120, widget=forms.TextInput(attrs={"class": "form-control"}))


class CapForm(forms.Form):
    """The most that may be spent in a month; empty removes the cap."""

    amount = AmountField(required=False, label="Spend cap for a month")


class ProfileForm(forms.Form):
    """Whom invoices are addressed to."""

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
