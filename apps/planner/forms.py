"""The form in which a task states what it needs, in plain words and units."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django import forms

from apps.compilation.selectors import programs_of_version
from apps.planner.candidates import metric_title
from apps.planner.metrics import K_MAX, LIMIT_MAX, METRICS, Metric
from apps.planner.models import Task
from apps.planner.score_format import DEFAULT, ScoreFormat, score_format_of
from apps.planner.solver import Requirements
from apps.pricing.limits import DEFAULT_WINDOW
from apps.pricing.rating import PriceClass
from apps.pricing.rating.tariff import zone_of
from apps.registry.models import ModelVersion

TIME_UNITS = (("1/1000000", "microseconds"), ("1/1000", "milliseconds"), ("1", "seconds"))

OBJECTIVE_CHOICES = (
    ("cost", "Least cost"),
    ("latency", "Least latency"),
    ("device_time", "Least device time (fewest devices)"),
)


def _accuracy_field(measure: ScoreFormat) -> forms.DecimalField:
    """What must be proven, by the metric's own name and in its unit."""
    proven = "Proven with 95 % confidence on items that were used for nothing else."
    if measure.limit is None:
        return forms.DecimalField(
            min_value=0,
            max_value=100,
            max_digits=8,
            decimal_places=5,
            required=False,
            help_text=proven,
            label=f"{measure.title} of at least, per cent",
        )
    return forms.DecimalField(
        min_value=0,
        max_digits=18,
        decimal_places=9,
        required=False,
        label=f"{measure.title} of at most",
        help_text=f"In the labels' units, below the limit {measure.text('0')}. {proven}",
    )


def _class_field(classes: Sequence[PriceClass]) -> forms.ChoiceField:
    """Return the choice among the price book's classes, with what each promises below it."""
    return forms.ChoiceField(
        choices=[(one.name, one.title) for one in classes],
        label="Class of service",
        help_text=" ".join(f"{one.title}: {one.promise}" for one in classes),
        error_messages={
            "required": "Choose a class of service.",
            "invalid_choice": "Choose one of the listed classes.",
        },
    )


class PlanForm(forms.Form):
    """Requirements; what is left empty is not required."""

    items = forms.IntegerField(
        min_value=1, max_value=10**12, initial=1_000_000, label="Items", help_text="How many inputs are to be answered."
    )
    accuracy = forms.DecimalField(required=False)  # by the subject's metric
    latency = forms.DecimalField(
        min_value=0,
        max_digits=20,
        decimal_places=6,
        required=False,
        label="One item within",
        help_text="From the first input byte to the last output byte.",
    )
    latency_unit = forms.ChoiceField(choices=TIME_UNITS, label="Unit", initial="1/1000000")
    duration = forms.DecimalField(
        min_value=0,
        max_digits=20,
        decimal_places=6,
        required=False,
        label="All items within, seconds",
        help_text="Device time of the whole job.",
    )
    until = forms.DateTimeField(
        required=False,
        label="All items done by",
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"],
        widget=forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    budget = forms.DecimalField(
        min_value=0,
        max_digits=20,
        decimal_places=6,
        required=False,
        label="Budget for all items",
        help_text="In the currency of the price book.",
    )
    klass = forms.ChoiceField(label="Class of service")  # choices: the price book's classes
    objective = forms.ChoiceField(choices=OBJECTIVE_CHOICES, label="Choose the one with", required=False)
    dims = forms.ChoiceField(label="One item is", required=False)

    def __init__(self, subject: ModelVersion | Task, classes: Sequence[PriceClass], data: Any = None) -> None:
        super().__init__(data)
        self.fields["klass"] = _class_field(classes)
        self.zone = zone_of(subject.organisation.time_zone)
        self.measure = score_format_of(metric_title(subject) if isinstance(subject, Task) else DEFAULT)
        self.fields["accuracy"] = _accuracy_field(self.measure)
        days = DEFAULT_WINDOW.days
        self.fields[
            "until"
        ].help_text = f"{self.zone.key}; empty means within {days} days, waiting for free devices included."
        if isinstance(subject, Task) or not subject.symbolic_dims:  # a task's data say what one item is
            self.fields["dims"].widget = forms.HiddenInput()
            return
        found = {json.dumps(p.dims, sort_keys=True): p.dims for p in programs_of_version(subject)}
        choices = [
            (key, ", ".join(f"{n} = {v}" for n, v in dims.items()) or "fixed") for key, dims in sorted(found.items())
        ]
        self.fields["dims"] = forms.ChoiceField(choices=choices, label="One item is", required=bool(choices))

    def requirements(self) -> Requirements:
        """What the solver takes: exact shares, seconds and amounts."""
        stated = self.cleaned_data
        unit = Fraction(stated["latency_unit"])
        return Requirements(
            items=stated["items"],
            accuracy=None if stated["accuracy"] is None else self.measure.share_of(Fraction(stated["accuracy"])),
            latency=None if stated["latency"] is None else Fraction(stated["latency"]) * unit,
            duration=None if stated["duration"] is None else Fraction(stated["duration"]),
            budget=None if stated["budget"] is None else Decimal(stated["budget"]),
            objective=stated["objective"] or OBJECTIVE_CHOICES[0][0],
        )

    def chosen_until(self) -> datetime | None:
        """The instant until which there must be room, as it is read at the organisation's own clock."""
        stated: datetime | None = self.cleaned_data["until"]
        return None if stated is None else stated.replace(tzinfo=self.zone).astimezone(UTC)

    def chosen_dims(self) -> dict[str, int] | None:
        """The lengths of one item; None for the smallest that was compiled."""
        text = self.cleaned_data.get("dims")
        return json.loads(text) if text else None


class TaskForm(forms.Form):
    """The data that decide, how an answer is judged, and which models are candidates."""

    name = forms.CharField(max_length=120, label="Name", help_text="For example: read digits on forms.")
    data_set = forms.ChoiceField(label="Data set", required=False)
    file = forms.FileField(label="Or upload a data set", required=False)
    choose_percent = forms.IntegerField(
        min_value=1,
        max_value=99,
        initial=33,
        label="Share of items to choose on, per cent",
        help_text="Thresholds are chosen on these items; the others decide what is promised.",
    )
    seed = forms.IntegerField(
        min_value=0,
        max_value=2**63 - 1,
        initial=1,
        label="Seed of the split",
        help_text="The same seed splits the same way.",
    )
    metric = forms.ChoiceField(choices=list(METRICS.items()), label="Metric")
    k = forms.IntegerField(
        min_value=1, max_value=K_MAX, initial=1, label="k", help_text="For accuracy: 1, or 5 for top-5."
    )
    limit = forms.DecimalField(
        required=False,
        min_value=Decimal("0.000000001"),
        max_value=LIMIT_MAX,
        max_digits=18,
        decimal_places=9,
        label="Limit",
        help_text="For mean error and closeness, in the output's units; for signal-to-noise in dB.",
    )
    output = forms.CharField(
        max_length=200, required=False, label="Output", help_text="Empty: the output with one score for each class."
    )
    versions = forms.MultipleChoiceField(
        required=False,
        label="Models",
        help_text="None chosen: every model that takes these items.",
    )

    def __init__(
        self, *args: Any, data_sets: list[tuple[str, str]], versions: list[tuple[str, str]], **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        for name, choices in (("data_set", [("", "Choose a data set"), *data_sets]), ("versions", versions)):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = choices
        self.fields["file"].widget.attrs["accept"] = ".npz"
        self.has_models = bool(versions)

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if not self.errors and bool(cleaned.get("data_set")) == bool(cleaned.get("file")):
            raise forms.ValidationError("Choose a data set, or upload a new one; one of the two.")
        return cleaned

    def chosen_metric(self) -> Metric:
        """How answers are judged."""
        return Metric(self.cleaned_data["metric"], self.cleaned_data["k"], self.cleaned_data["limit"])
