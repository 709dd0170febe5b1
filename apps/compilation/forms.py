"""The form that asks for compiles: processors, precisions, and a field for each variable dimension."""

from __future__ import annotations

from typing import Any

from django import forms

from apps.compilation import selectors
from apps.compilation.dimensions import sizes_suggested
from apps.compilation.models import Precision
from apps.registry.models import ModelVersion

PREFIX = "dim-"


def _label(row: dict[str, Any]) -> str:
    """A variable dimension's name with its inputs; "x.2" is axis 2 of x, which the model leaves without a name."""
    inputs = ", ".join(row["inputs"])
    axis = row["name"].removeprefix(f"{row['inputs'][0]}.")
    if axis.isdigit() and axis != row["name"]:
        return f"Axis {axis} (input {inputs})"
    return f"{row['name']} (input{'s' if len(row['inputs']) > 1 else ''} {inputs})"


class CompileForm(forms.Form):
    """One compile for each chosen processor and precision."""

    targets = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, label="Processors")
    precision = forms.MultipleChoiceField(
        choices=Precision.choices, widget=forms.CheckboxSelectMultiple, label="Precision"
    )
    calibration = forms.FileField(
        required=False,
        label="Calibration examples",
        help_text=(
            "For float16 and int8: a .npz file with one array for each input, typical items along the leading axis. "
            "Without it, inputs are generated, and the report says so."
        ),
        widget=forms.ClearableFileInput(attrs={"accept": ".npz"}),
    )

    mail = forms.BooleanField(required=False, label="Send me a mail when all compiles have ended")

    def __init__(self, version: ModelVersion, data: Any = None, files: Any = None) -> None:
        names = selectors.target_names(version.organisation)
        self.offered = [name for name in names if name in selectors.targets_with_pools()]
        super().__init__(data, files, initial=self._initial(version, names))
        choices = forms.MultipleChoiceField(
            widget=forms.CheckboxSelectMultiple, label="Processors", choices=[(name, name) for name in names]
        )
        self.fields["targets"] = choices
        self.without_pools = [name for name in names if name not in self.offered]
        self.symbols = [row["name"] for row in version.symbolic_dims]
        for row in version.symbolic_dims:
            self.fields[PREFIX + row["name"]] = forms.CharField(
                label=_label(row),
                max_length=100,
                help_text="A whole number, or several separated by commas: one program for each.",
            )

    def _initial(self, version: ModelVersion, names: list[str]) -> dict[str, Any]:
        """What was compiled last; for a new version one processor that a pool offers, and suggested sizes."""
        symbols = [row["name"] for row in version.symbolic_dims]
        last = selectors.jobs_last(version)
        sizes = {**sizes_suggested(version.inputs, symbols), **(last[0].dims if last else {})}
        chosen = {job.target for job in last} or set((self.offered or names)[:1])
        return {
            "targets": [name for name in names if name in chosen],
            "precision": sorted({job.precision for job in last}) or [Precision.FLOAT32],
            **{PREFIX + name: _sizes_text(sizes[name]) for name in symbols},
        }

    @property
    def dim_fields(self) -> list[forms.BoundField]:
        """The bound fields of the variable dimensions."""
        return [self[PREFIX + name] for name in self.symbols]

    def clean(self) -> dict[str, Any]:
        """Adds `dims`, as the service expects them. Reports anything but whole numbers at its field."""
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


def _sizes_text(sizes: int | list[int]) -> str:
    return ", ".join(str(size) for size in (sizes if isinstance(sizes, list) else [sizes]))
