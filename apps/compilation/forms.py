"""The form that asks for a compile: targets, precision, and a field for each open length."""

from __future__ import annotations

from typing import Any

from django import forms

from apps.compilation import selectors
from apps.compilation.models import Precision
from apps.registry.models import ModelVersion

PREFIX = "dim-"


class CompileForm(forms.Form):
    """One job for each chosen target."""

    targets = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, label="Processors")
    precision = forms.ChoiceField(choices=Precision.choices, label="Precision")

    def __init__(self, version: ModelVersion, data: Any = None) -> None:
        names = selectors.target_names()
        super().__init__(data, initial={"targets": names, "precision": Precision.FLOAT32})
        choices = forms.MultipleChoiceField(
            widget=forms.CheckboxSelectMultiple, label="Processors", choices=[(name, name) for name in names]
        )
        self.fields["targets"] = choices
        self.symbols = [row["name"] for row in version.symbolic_dims]
        for row in version.symbolic_dims:
            self.fields[PREFIX + row["name"]] = forms.CharField(
                label=f"Length {row['name']}",
                max_length=100,
                help_text=f"Of {', '.join(row['inputs'])}. A number, or several separated by commas: one program for each.",
            )

    @property
    def dim_fields(self) -> list[forms.BoundField]:
        """The bound fields of the open lengths."""
        return [self[PREFIX + name] for name in self.symbols]

    def clean(self) -> dict[str, Any]:
        """`dims` as the service wants them; what is no number is said at its field."""
        cleaned = super().clean() or {}
        dims: dict[str, int | list[int]] = {}
        for name in self.symbols:
            words = [word.strip() for word in cleaned.get(PREFIX + name, "").split(",") if word.strip()]
            if not all(word.isascii() and word.isdigit() for word in words):
                self.add_error(PREFIX + name, "Whole numbers only, for example 16 or 16, 64, 128.")
            elif words:
                numbers = [int(word) for word in words]
                dims[name] = numbers[0] if len(numbers) == 1 else numbers
        return {**cleaned, "dims": dims}
