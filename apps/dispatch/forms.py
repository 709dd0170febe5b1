"""The form to submit a job."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django import forms

from apps.accounts.counters import NAME_LENGTH

MOST_ITEMS = 100_000  # generated ones; files may have more
ITEMS = dict.fromkeys(("invalid", "min_value", "max_value"), f"Enter a whole number of items from 1 to {MOST_ITEMS:,}.")
BOTH = "Choose a file or generate test inputs, not both."
NEITHER = "Choose a file of inputs, or enter a number of test inputs to generate."


class JobForm(forms.Form):
    """The form to submit a job: a contract, and either an input file or the number of inputs to generate."""

    contract = forms.ChoiceField(label="Contract", error_messages={"required": "Choose a contract."})
    inputs = forms.FileField(
        label="Input file",
        required=False,
        help_text=(
            "A .npz file with one array for each input. The first axis holds the items. "
            "A program with one input also accepts a .npy file."
        ),
        error_messages={"empty": "This file is empty. Choose a .npz file with one array for each input."},
    )
    sample_items = forms.IntegerField(
        label="Generate test inputs",
        required=False,
        min_value=1,
        max_value=MOST_ITEMS,
        help_text="The number of random items to generate if you have no file. They are billed like your own items.",
        error_messages=ITEMS,
    )
    name = forms.CharField(label="Name", required=False, max_length=NAME_LENGTH)
    once = forms.UUIDField(widget=forms.HiddenInput, required=False, initial=uuid4)

    def __init__(self, *args: Any, contracts: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["contract"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = contracts
        self.fields["inputs"].widget.attrs["accept"] = ".npz,.npy"

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if not self.errors and bool(cleaned.get("inputs")) == bool(cleaned.get("sample_items")):
            raise forms.ValidationError(BOTH if cleaned.get("inputs") else NEITHER)
        return cleaned
