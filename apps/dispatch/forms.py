"""The form that submits a job."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django import forms

MOST_ITEMS = 100_000  # seeded ones; files may have more
ITEMS = dict.fromkeys(("invalid", "min_value", "max_value"), f"Enter a whole number of items from 1 to {MOST_ITEMS:,}.")


class JobForm(forms.Form):
    """A contract, and either a file of inputs or a number of seeded ones to try it with."""

    contract = forms.ChoiceField(label="Contract", error_messages={"required": "Choose a contract."})
    inputs = forms.FileField(label="Inputs", required=False)
    sample_items = forms.IntegerField(
        label="Or seeded items", required=False, min_value=1, max_value=MOST_ITEMS, error_messages=ITEMS
    )

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
            raise forms.ValidationError("Choose a file of inputs, or say how many seeded items to run; one of the two.")
        return cleaned
