"""Forms for plans and tasks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django import forms

from apps.accounts.numbers import FIRST_YEAR, LAST_YEAR
from apps.accounts.problems import Problem
from apps.compilation.selectors import programs_of_version
from apps.planner.candidates import metric_title
from apps.planner.metrics import K_MAX, LIMIT_MAX, METRICS, Metric
from apps.planner.models import Task
from apps.planner.plan_text import OBJECTIVE
from apps.planner.score_format import DEFAULT, ScoreFormat, score_format_of
from apps.planner.services import ITEMS_MAX
from apps.planner.solver import Requirements
from apps.pricing.limits import DEFAULT_WINDOW
from apps.pricing.rating import PriceClass
from apps.pricing.rating.tariff import zone_of
from apps.registry.models import ModelVersion

TIME_UNITS = (("1/1000000", "microseconds"), ("1/1000", "milliseconds"), ("1", "seconds"))
ABOVE_ZERO = Decimal("0.000001")
NOT_ABOVE_ZERO = {"min_value": "Enter a value above 0, or leave this empty."}


def _accuracy_field(score: ScoreFormat) -> forms.DecimalField:
    proven = "Proven with 95 % confidence on test items."
    if score.limit is None:
        allowed = "Enter a percentage above 0 and below 100, or leave this empty."
        return forms.DecimalField(
            min_value=Decimal("0.00001"),
            max_value=Decimal("99.99999"),
            max_digits=8,
            decimal_places=5,
            required=False,
            help_text=proven,
            label=f"Minimum {score.name} (%)",
            error_messages={"min_value": allowed, "max_value": allowed},
        )
    return forms.DecimalField(
        min_value=Decimal("0.000000001"),
        max_digits=18,
        decimal_places=9,
        required=False,
        label=f"Maximum {score.name}",
        help_text=f"In the labels' units; must be below the limit of {score.text('0')}. {proven}",
        error_messages=NOT_ABOVE_ZERO,
    )


def _class_field(classes: Sequence[PriceClass]) -> forms.ChoiceField:
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
    """A form for the requirements of a plan. An empty field sets no requirement."""

    items = forms.IntegerField(
        min_value=1,
        max_value=ITEMS_MAX,
        initial=1_000_000,
        label="Items",
        help_text="The number of inputs to process.",
        error_messages={
            "min_value": f"Enter a number of items from 1 to {ITEMS_MAX:,}.",
            "max_value": f"Enter a number of items from 1 to {ITEMS_MAX:,}.",
        },
    )
    accuracy = forms.DecimalField(required=False)  # replaced by the field of the subject's metric
    latency = forms.DecimalField(
        min_value=ABOVE_ZERO,
        max_digits=20,
        decimal_places=6,
        required=False,
        label="Maximum latency",
        help_text="One item, from the first input byte to the last output byte.",
        error_messages=NOT_ABOVE_ZERO,
    )
    latency_unit = forms.ChoiceField(choices=TIME_UNITS, label="Unit", initial="1/1000000")
    duration = forms.DecimalField(
        min_value=ABOVE_ZERO,
        max_digits=20,
        decimal_places=6,
        required=False,
        label="Maximum device time (s)",
        help_text="All items together, including loading.",
        error_messages=NOT_ABOVE_ZERO,
    )
    until = forms.DateTimeField(
        required=False,
        label="Deadline",
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"],
        widget=forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    budget = forms.DecimalField(
        min_value=ABOVE_ZERO,
        max_digits=20,
        decimal_places=6,
        required=False,
        label="Budget",
        help_text="For all items, in the currency of the price book.",
        error_messages=NOT_ABOVE_ZERO,
    )
    klass = forms.ChoiceField(label="Class of service")  # replaced by the price book's classes
    objective = forms.ChoiceField(choices=list(OBJECTIVE.items()), label="Objective", required=False)
    dims = forms.ChoiceField(label="Item size", required=False)

    def __init__(self, subject: ModelVersion | Task, classes: Sequence[PriceClass], data: Any = None) -> None:
        super().__init__(data)
        self.fields["klass"] = _class_field(classes)
        self.zone = zone_of(subject.organisation.time_zone)
        self.score = score_format_of(metric_title(subject) if isinstance(subject, Task) else DEFAULT)
        self.fields["accuracy"] = _accuracy_field(self.score)
        default = f"Leave empty for {DEFAULT_WINDOW.days} days from now."
        self.fields["until"].help_text = f"Time zone {self.zone.key}. {default}"
        if isinstance(subject, Task) or not subject.symbolic_dims:  # a task's data define the item size
            self.fields["dims"].widget = forms.HiddenInput()
            return
        found = {json.dumps(p.dims, sort_keys=True): p.dims for p in programs_of_version(subject)}
        choices = [
            (key, ", ".join(f"{n} = {v}" for n, v in dims.items()) or "fixed") for key, dims in sorted(found.items())
        ]
        self.fields["dims"] = forms.ChoiceField(choices=choices, label="Item size", required=bool(choices))

    def clean_until(self) -> datetime | None:
        """Convert the deadline from the organisation's time zone to UTC."""
        stated: datetime | None = self.cleaned_data["until"]
        if stated is None:
            return None
        if not FIRST_YEAR <= stated.year <= LAST_YEAR:
            raise forms.ValidationError(f"The year of the deadline must be from {FIRST_YEAR} to {LAST_YEAR}.")
        return stated.replace(tzinfo=self.zone).astimezone(UTC)

    def requirements(self) -> Requirements:
        """Return the requirements as exact numbers."""
        stated = self.cleaned_data
        unit = Fraction(stated["latency_unit"])
        return Requirements(
            items=stated["items"],
            accuracy=None if stated["accuracy"] is None else self.score.share_of(Fraction(stated["accuracy"])),
            latency=None if stated["latency"] is None else Fraction(stated["latency"]) * unit,
            duration=None if stated["duration"] is None else Fraction(stated["duration"]),
            budget=None if stated["budget"] is None else Decimal(stated["budget"]),
            objective=stated["objective"] or next(iter(OBJECTIVE)),
        )

    def chosen_dims(self) -> dict[str, int] | None:
        """Return the chosen sizes of the variable dimensions. None means the smallest compiled sizes."""
        text = self.cleaned_data.get("dims")
        return json.loads(text) if text else None

    def refuse(self, problem: Problem) -> None:
        """Add each error in a Problem to the form field that the error names."""
        for error in problem.errors:
            if error.get("field") in self.fields:
                self.add_error(error["field"], error["message"])


class TaskForm(forms.Form):
    """A form to create a task."""

    name = forms.CharField(max_length=120, label="Name", help_text="For example: read digits on forms.")
    data_set = forms.ChoiceField(label="Data set", required=False)
    file = forms.FileField(label="Or upload a data set", required=False)
    choose_percent = forms.IntegerField(
        min_value=1,
        max_value=99,
        initial=33,
        label="Tuning items (%)",
        help_text="Thresholds are chosen on these items. The remaining items are test items, which prove the accuracy.",
    )
    seed = forms.IntegerField(
        min_value=0,
        max_value=2**63 - 1,
        initial=1,
        label="Random seed",
        help_text="The same seed splits the items in the same way.",
    )
    metric = forms.ChoiceField(choices=list(METRICS.items()), label="Metric")
    k = forms.IntegerField(
        min_value=1, max_value=K_MAX, initial=1, label="k", help_text="For accuracy: 1 for top-1, 5 for top-5."
    )
    limit = forms.DecimalField(
        required=False,
        min_value=Decimal("0.000000001"),
        max_value=LIMIT_MAX,
        max_digits=18,
        decimal_places=9,
        label="Limit",
        help_text="For mean error and closeness, in the output's units; for signal-to-noise, in dB.",
    )
    output = forms.CharField(
        max_length=200,
        required=False,
        label="Output",
        help_text="Leave empty to use the output with one score per class.",
    )
    versions = forms.MultipleChoiceField(
        required=False,
        label="Models",
        help_text="If none is selected, every model that accepts these items is used.",
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
            raise forms.ValidationError("Choose a data set or upload one, not both.")
        return cleaned

    def chosen_metric(self) -> Metric:
        return Metric(self.cleaned_data["metric"], self.cleaned_data["k"], self.cleaned_data["limit"])
