"""Form fields for a price book. The cleaned value of a field is the value that the document stores."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from apps.pricing.rating import decimal_text
from apps.pricing.rating.decimals import FACTOR_PLACES, PRICE_PLACES

_GROUPED = re.compile(r"[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?")
_DECIMAL = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,40})?")
_WHOLE = re.compile(r"[0-9]{1,30}")
MONEY_MOST = Decimal(10) ** 9
FACTOR_MOST = Decimal(1000)


class DecimalText(forms.CharField):
    """A field for a decimal from `least` to `most`. The cleaned value is canonical text; "" for an empty field.

    If `above` is set, the value must be above `least`. Commas may separate thousands.
    """

    def __init__(
        self, *, least: Decimal, most: Decimal, places: int, example: str, above: bool = False, **options: Any
    ) -> None:
        self.least, self.most, self.places, self.example, self.above = least, most, places, example, above
        options.setdefault("widget", forms.TextInput(attrs={"inputmode": "decimal", "autocomplete": "off"}))
        super().__init__(**options)

    def clean(self, value: Any) -> str:
        text = str(super().clean(value)).strip()
        if not text:
            return ""
        plain = text.replace(",", "") if _GROUPED.fullmatch(text) else text
        if not _DECIMAL.fullmatch(plain) or len(plain.partition(".")[2].rstrip("0")) > self.places:
            raise ValidationError(
                f"Enter a number such as {self.example}, with a point and at most {self.places} decimal places."
            )
        number = Decimal(plain)
        if number < self.least or number > self.most or (self.above and number == self.least):
            word = "above" if self.above else "from"
            joined = "and at most" if self.above else "to"
            raise ValidationError(f"“{self.label}” must be {word} {self.least} {joined} {self.most:,}.")
        return decimal_text(number)


class WholeNumber(forms.CharField):
    """A field for a whole number from `least` to `most`; None for an empty field. Commas may separate thousands."""

    def __init__(self, *, least: int, most: int, **options: Any) -> None:
        self.least, self.most = least, most
        options.setdefault("widget", forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"}))
        super().__init__(**options)

    def clean(self, value: Any) -> Any:
        text = str(super().clean(value)).strip()
        if not text:
            return None
        text = text.replace(",", "") if _GROUPED.fullmatch(text) else text
        if not _WHOLE.fullmatch(text) or not self.least <= int(text) <= self.most:
            raise ValidationError(f"Enter a whole number from {self.least:,} to {self.most:,}.")
        return int(text)


class PlainText(forms.CharField):
    """A field for one line of printable text."""

    def __init__(self, *, longest: int, **options: Any) -> None:
        super().__init__(max_length=longest, **options)

    def clean(self, value: Any) -> str:
        text = str(super().clean(value)).strip()
        if not text.isprintable():
            raise ValidationError("Enter one line of text without control characters.")
        return text


class KeyText(forms.CharField):
    """A field for a name that serves as a key in the document."""

    def clean(self, value: Any) -> str:
        text = str(super().clean(value)).strip()
        if text and not re.fullmatch(r"[a-z0-9_-]{1,40}", text):
            raise ValidationError("Enter 1 to 40 characters; only a-z, 0-9, _ and - are allowed.")
        return text


def key_field(label: str, placeholder: str) -> KeyText:
    """Return a field for the key of a new entry. An empty field adds no entry."""
    return KeyText(
        label=label,
        required=False,
        help_text="1 to 40 of the characters a-z, 0-9, _ and -.",
        widget=forms.TextInput(attrs={"placeholder": placeholder, "autocomplete": "off"}),
    )


def price_field(label: str, **options: Any) -> DecimalText:
    """Return a field for the price of a tera-operation."""
    return DecimalText(
        least=Decimal(0),
        most=MONEY_MOST,
        places=PRICE_PLACES,
        example="0.0000046",
        above=True,
        label=label,
        required=False,
        **options,
    )


def amount_field(label: str, **options: Any) -> DecimalText:
    """Return a field for an amount of money of at least 0."""
    return DecimalText(
        least=Decimal(0), most=MONEY_MOST, places=PRICE_PLACES, example="0.50", label=label, required=False, **options
    )


def factor_field(
    label: str, *, least: int = 0, most: Decimal = Decimal(1), above: bool = False, **options: Any
) -> DecimalText:
    """Return a field for a factor with at most 4 decimal places."""
    return DecimalText(
        least=Decimal(least), most=most, places=FACTOR_PLACES, example="0.75", above=above, label=label, **options
    )
