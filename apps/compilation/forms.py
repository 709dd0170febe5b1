"""The form that requests compiles."""

from __future__ import annotations

from typing import Any

from django import forms

from apps.compilation import selectors
from apps.compilation.dimensions import axis_of, sizes_suggested
from apps.compilation.models import Precision
from apps.compilation.stages import BUCKETS_MAX, SIZE_MAX
from apps.registry.models import ModelVersion

PREFIX = "dim-"
NOT_SIZES = f"Enter whole numbers from 1 to {SIZE_MAX:,}, for example 16 or 16, 64, 128."


class CompileForm(forms.Form):
    """The form that requests a compile for each chosen processor in each chosen precision."""

    targets = forms.MultipleChoiceField(
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
        label="Processors",
        error_messages={"required": "Choose at least one processor."},
    )
    precision = forms.MultipleChoiceField(
        choices=Precision.choices,
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
        label="Precision",
        error_messages={"required": "Choose at least one precision."},
    )
    calibration = forms.FileField(
        required=False,
        label="Calibration examples",
        help_text=(
            "A .npz file with one array for each input. Stack typical items along the first axis. Without a file, inputs are "
            "generated, and the report says so."
        ),
        widget=forms.ClearableFileInput(attrs={"accept": ".npz"}),
    )
    mail = forms.BooleanField(required=False, label="E-mail me when all compiles are done")

    def __init__(self, version: ModelVersion, data: Any = None, files: Any = None) -> None:
        known, sold = selectors.target_names(version.organisation), selectors.targets_with_pools()
        names = sorted(known, key=lambda name: name not in sold)  # what is for sale comes first
        self.without_pools = [name for name in names if name not in sold]
        self.symbols = [row["name"] for row in version.symbolic_dims]
        super().__init__(data, files, initial=self._initial(version, names))
        targets = self.fields["targets"]
        assert isinstance(targets, forms.MultipleChoiceField)
        targets.choices = [(name, name) for name in names]
        for row in version.symbolic_dims:
            self.fields[PREFIX + row["name"]] = forms.CharField(
                label=_label(row, version), max_length=100, error_messages={"required": NOT_SIZES}
            )

    def _initial(self, version: ModelVersion, names: list[str]) -> dict[str, Any]:
        last = selectors.jobs_last(version)
        sizes = {**sizes_suggested(version.inputs, self.symbols), **(last[0].dims if last else {})}
        chosen = {job.target for job in last} or set(names[:1])
        return {
            "targets": [name for name in names if name in chosen],
            "precision": sorted({job.precision for job in last}) or [Precision.FLOAT32],
            "mail": bool(last and last[0].request and last[0].request.mail),
            **{PREFIX + name: _sizes_text(sizes[name]) for name in self.symbols},
        }

    @property
    def dim_fields(self) -> list[forms.BoundField]:
        return [self[PREFIX + name] for name in self.symbols]

    @property
    def is_narrow(self) -> bool:
        chosen = self["precision"].value() or []
        return bool({Precision.FLOAT16, Precision.INT8} & set(chosen))

    @property
    def lost_file(self) -> bool:
        """True if the form was submitted with a file, which the browser drops when the form is shown again."""
        return bool(self.is_bound and self.files)

    def clean(self) -> dict[str, Any]:
        """Add `dims` in the service's format, and report each invalid size at its field."""
        cleaned = super().clean() or {}
        dims: dict[str, int | list[int]] = {}
        for name in self.symbols:
            text = cleaned.get(PREFIX + name)
            numbers = [] if text is None else _sizes_read(text)
            if numbers:
                dims[name] = numbers[0] if len(numbers) == 1 else numbers
            elif text is not None:
                self.add_error(PREFIX + name, NOT_SIZES)
        if _combinations(dims) > BUCKETS_MAX:
            message = (
                f"These sizes make {_combinations(dims):,} combinations; at most {BUCKETS_MAX} can be compiled at once."
            )
            self.add_error(None, message)
        return {**cleaned, "dims": dims}


def _label(row: dict[str, Any], version: ModelVersion) -> str:
    place = axis_of(row["name"], version.inputs)
    if place is None:
        plural = "s" if len(row["inputs"]) > 1 else ""
        return f"{row['name']} (input{plural} {', '.join(row['inputs'])})"
    owner, axis = place
    role = selectors.dimension_names(version)[row["name"]].removesuffix(f" of {owner}")
    where = f"input {owner}" if role == f"axis {axis}" else f"axis {axis} of {owner}"
    return f"{role[:1].upper()}{role[1:]} ({where})"


def _sizes_read(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isascii() and word.isdigit() and len(word) < 12 for word in words):
        return []
    numbers = sorted({int(word) for word in words})
    return numbers if numbers and numbers[0] >= 1 and numbers[-1] <= SIZE_MAX else []


def _combinations(dims: dict[str, int | list[int]]) -> int:
    found = 1
    for sizes in dims.values():
        found *= len(sizes) if isinstance(sizes, list) else 1
    return found


def _sizes_text(sizes: int | list[int]) -> str:
    return ", ".join(str(size) for size in (sizes if isinstance(sizes, list) else [sizes]))
