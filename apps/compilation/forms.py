"""The form that asks for a compile: targets, precision, and a field for each open length."""

from __future__ import annotations

from typing import Any

from django import forms

from apps.compilation import selectors
from apps.compilation.models import Precision
from apps.registry.models import ModelVersion

PREFIX = "dim-"


def _place(row: dict[str, Any]) -> str:
    """Where an open length stands: "x.2" is axis 2 of x, which the model leaves without a name."""
    inputs = ", ".join(row["inputs"])
    axis = row["name"].removeprefix(f"{row['inputs'][0]}.")
    return f"Axis {axis} of {inputs}" if axis.isdigit() and axis != row["name"] else f"Of {inputs}"


class CompileForm(forms.Form):
    """One job for each chosen target in each chosen precision."""

    targets = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, label="Processors")
    precision = forms.MultipleChoiceField(
        choices=Precision.choices, widget=forms.CheckboxSelectMultiple, label="Precision"
    )
    calibration = forms.FileField(
        required=False,
        label="Calibration examples",
        help_text=(
            "For float16 and int8: a .npz file with one array for each input, typical items along the leading axis. "
            "Without it made-up inputs are used, and the report says so."
        ),
        widget=forms.ClearableFileInput(attrs={"accept": ".npz"}),
    )

    def __init__(self, version: ModelVersion, data: Any = None, files: Any = None) -> None:
        names = selectors.target_names(version.organisation)
        offered = [name for name in names if name in selectors.targets_with_pools()]
        super().__init__(data, files, initial={"targets": offered or names, "precision": [Precision.FLOAT32]})
        choices = forms.MultipleChoiceField(
            widget=forms.CheckboxSelectMultiple, label="Processors", choices=[(name, name) for name in names]
        )
        self.fields["targets"] = choices
        self.without_pools = [name for name in names if name not in offered]
        self.symbols = [row["name"] for row in version.symbolic_dims]
        for row in version.symbolic_dims:
            self.fields[PREFIX + row["name"]] = forms.CharField(
                label=f"Length {row['name']}",
                max_length=100,
                help_text=f"{_place(row)}. A number, or several separated by commas: one program for each.",
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
