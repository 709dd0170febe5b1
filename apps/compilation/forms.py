"""The form that requests compiles."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from django import forms

from apps.compilation import selectors
from apps.compilation.dimensions import axis_of, sizes_suggested
from apps.compilation.models import CompileJob, Precision
from apps.compilation.options import CONTEXT_MAX, OptionError, bounds_read, constants_read, options_of, pairs_read
from apps.compilation.stages import BUCKETS_MAX, SIZE_MAX
from apps.registry.models import ModelVersion

PREFIX = "dim-"
READERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "caches": pairs_read,
    "states": pairs_read,
    "bounds": bounds_read,
    "constants": constants_read,
}
NOT_SIZES = f"Enter whole numbers from 1 to {SIZE_MAX:,}, for example 16 or 16, 64, 128."


class SizesInput(forms.TextInput):
    """A field that the browser lets be empty, since a context fixes some sizes."""

    def use_required_attribute(self, initial: Any) -> bool:
        return False


def _lines(label: str, example: str, text: str) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": 2, "placeholder": example, "spellcheck": "false"})
    return forms.CharField(
        required=False, max_length=20_000, label=label, help_text=f"{text} One on a line.", widget=widget
    )


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
    context = forms.IntegerField(
        required=False,
        min_value=2,
        max_value=CONTEXT_MAX,
        label="Context",
        help_text="For decoders: how many tokens a sequence has at most. Caches that grow stay on the processor. Leave the "
        "sizes of their rows empty.",
    )
    caches = _lines("Caches", "past=present", "Caches that the context is for. Without an entry, all are found.")
    states = _lines("States", "state_in=state_out", "Inputs that stay on the processor and become the output.")
    bounds = _lines("Loop bounds", "loop=20", "The most trips of each loop that the data ends.")
    constants = _lines("Constants", "sr=16000", "Inputs with one value.")
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
        self.has_context = bool(data and str(data.get("context", "")).strip())
        for row in version.symbolic_dims:
            self.fields[PREFIX + row["name"]] = forms.CharField(
                label=_label(row, version),
                max_length=100,
                required=not self.has_context,
                widget=SizesInput,
                error_messages={"required": NOT_SIZES},
            )

    def _initial(self, version: ModelVersion, names: list[str]) -> dict[str, Any]:
        last = selectors.jobs_last(version)
        chosen = {job.target for job in last} or set(names[:1])
        return {
            "targets": [name for name in names if name in chosen],
            "precision": sorted({job.precision for job in last}) or [Precision.FLOAT32],
            "mail": bool(last and last[0].request and last[0].request.mail),
            **(_options_shown(last[0]) if last else {}),
            **{PREFIX + name: _sizes_text(size) for name, size in self._sizes(version, last).items()},
        }

    def _sizes(self, version: ModelVersion, last: list[CompileJob]) -> dict[str, Any]:
        # With a context, the caches fix the sizes that the last compile left out.
        left_out = bool(last) and "context" in last[0].options
        suggested = {} if left_out else sizes_suggested(version.inputs, self.symbols)
        sizes = {**suggested, **(last[0].dims if last else {})}
        return {name: sizes[name] for name in self.symbols if name in sizes}

    @property
    def dim_fields(self) -> list[forms.BoundField]:
        return [self[PREFIX + name] for name in self.symbols]

    @property
    def is_narrow(self) -> bool:
        chosen = self["precision"].value() or []
        return bool({Precision.FLOAT16, Precision.INT8} & set(chosen))

    @property
    def has_options(self) -> bool:
        """True if an option is filled in or has an error, so that its part of the form is shown open."""
        names = ("context", *READERS)
        return any(self[name].value() not in (None, "") or self[name].errors for name in names)

    @property
    def lost_file(self) -> bool:
        """True if the form was submitted with a file, which the browser drops when the form is shown again."""
        return bool(self.is_bound and self.files)

    def clean(self) -> dict[str, Any]:
        """Add `dims` and `options` in the service's format, and report each fault at its field."""
        cleaned = super().clean() or {}
        dims: dict[str, int | list[int]] = {}
        for name in self.symbols:
            text = cleaned.get(PREFIX + name)
            if text is None or (not text and self.has_context):
                continue
            numbers = _sizes_read(text)
            if numbers:
                dims[name] = numbers[0] if len(numbers) == 1 else numbers
            else:
                self.add_error(PREFIX + name, NOT_SIZES)
        if _combinations(dims) > BUCKETS_MAX:
            message = (
                f"These sizes make {_combinations(dims):,} combinations; at most {BUCKETS_MAX} can be compiled at once."
            )
            self.add_error(None, message)
        return {**cleaned, **self._options_read(cleaned), "dims": dims}

    def _options_read(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, dict[str, Any]] = {}
        for name, read in READERS.items():
            try:
                found[name] = read(cleaned.get(name) or "")
            except OptionError as error:
                self.add_error(name, str(error))
        constants = found.pop("constants", {})
        return {"options": options_of(**found, context=cleaned.get("context")), "constants": constants}


def _options_shown(job: CompileJob) -> dict[str, Any]:
    """The options of a compile as the form's fields have them."""
    pairs = {name: job.options.get(name, {}) for name in ("caches", "states", "bounds")}
    values = {name: json.dumps(value) for name, value in job.constants.items()}
    shown = {
        name: "\n".join(f"{key}={value}" for key, value in one.items())
        for name, one in {**pairs, "constants": values}.items()
    }
    return {**shown, "context": job.options.get("context")}


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
