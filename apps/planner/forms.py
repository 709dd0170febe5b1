"""The form in which a task states what it needs, in plain words and units."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django import forms

from apps.compilation.selectors import programs_of_version
from apps.planner.solver import Requirements
from apps.pricing.limits import DEFAULT_WINDOW
from apps.pricing.rating.tariff import zone_of
from apps.registry.models import ModelVersion

TIME_UNITS = (("1/1000000", "microseconds"), ("1/1000", "milliseconds"), ("1", "seconds"))
CLASSES = (("standard", "Standard"), ("priority", "Priority"), ("batch", "Batch, within 24 hours"))


class PlanForm(forms.Form):
    """Requirements; what is left empty is not required."""

    items = forms.IntegerField(
        min_value=1, max_value=10**12, initial=1_000_000, label="Items", help_text="How many inputs are to be answered."
    )
    accuracy = forms.DecimalField(
        min_value=0, max_value=100, max_digits=8, decimal_places=5, required=False, label="Accuracy of at least, per cent",
        help_text="Proven with 95 % confidence on items that were used for nothing else.",
    )  # fmt: skip
    latency = forms.DecimalField(
        min_value=0, max_digits=20, decimal_places=6, required=False, label="One item within",
        help_text="From the first input byte to the last output byte.",
    )  # fmt: skip
    latency_unit = forms.ChoiceField(choices=TIME_UNITS, label="Unit", initial="1/1000000")
    duration = forms.DecimalField(
        min_value=0, max_digits=20, decimal_places=6, required=False, label="All items within, seconds",
        help_text="Device time of the whole job.",
    )  # fmt: skip
    until = forms.DateTimeField(
        required=False, label="All items done by", input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"],
        widget=forms.DateTimeInput({"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )  # fmt: skip
    budget = forms.DecimalField(
        min_value=0, max_digits=20, decimal_places=6, required=False, label="Budget for all items",
        help_text="In the currency of the price book.",
    )  # fmt: skip
    klass = forms.ChoiceField(choices=CLASSES, label="Class of service")
    dims = forms.ChoiceField(label="One item is", required=False)

    def __init__(self, version: ModelVersion, data: Any = None, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, initial=initial)
        self.zone = zone_of(version.organisation.time_zone)
        days = DEFAULT_WINDOW.days
        self.fields["until"].help_text = f"{self.zone.key}; empty means within {days} days, waiting for free devices included."
        found = {json.dumps(p.dims, sort_keys=True): p.dims for p in programs_of_version(version)}
        choices = [(key, ", ".join(f"{n} = {v}" for n, v in dims.items()) or "fixed") for key, dims in sorted(found.items())]
        self.fields["dims"] = forms.ChoiceField(choices=choices, label="One item is", required=bool(choices))
        if not version.symbolic_dims:
            self.fields["dims"].required = False
            self.fields["dims"].widget = forms.HiddenInput()

    def requirements(self) -> Requirements:
        """What the solver takes: exact shares, seconds and amounts."""
        stated = self.cleaned_data
        unit = Fraction(stated["latency_unit"])
        return Requirements(
            items=stated["items"],
            accuracy=None if stated["accuracy"] is None else Fraction(stated["accuracy"]) / 100,
            latency=None if stated["latency"] is None else Fraction(stated["latency"]) * unit,
            duration=None if stated["duration"] is None else Fraction(stated["duration"]),
            budget=None if stated["budget"] is None else Decimal(stated["budget"]),
        )

    def chosen_until(self) -> datetime | None:
        """The instant until which there must be room, as it is read at the organisation's own clock."""
        stated: datetime | None = self.cleaned_data["until"]
        return None if stated is None else stated.replace(tzinfo=self.zone).astimezone(UTC)

    def chosen_dims(self) -> dict[str, int] | None:
        """The lengths of one item; None for the smallest that was compiled."""
        text = self.cleaned_data.get("dims")
        return json.loads(text) if text else None
