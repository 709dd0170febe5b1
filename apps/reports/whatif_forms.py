"""The forms of the what-if page."""

from __future__ import annotations

from typing import Any

from django import forms

from apps.fleet.models import Site
from apps.fleet.selectors import pool_slugs
from apps.pricing.models import PriceBook
from apps.reports.changes import DEVICES_MOST, Change
from apps.reports.models import DemandTrace

NUMBER = {"class": "form-control"}
CHOICE = {"class": "form-select"}
SHOWN = 50


class WhatIfForm(forms.Form):
    """A form for a change to the fleet, the demand or the prices."""

    failed_sites = forms.MultipleChoiceField(
        label="Failed sites",
        required=False,
        widget=forms.CheckboxSelectMultiple(attrs={"class": "form-check-input"}),
    )
    power_percent = forms.IntegerField(
        label="Power", initial=100, min_value=1, max_value=200, widget=forms.NumberInput(NUMBER)
    )
    demand_factor = forms.FloatField(
        label="Demand", initial=1, min_value=0, max_value=1000, widget=forms.NumberInput({**NUMBER, "step": "any"})
    )
    trace = forms.ModelChoiceField(
        label="Trace",
        queryset=DemandTrace.objects.none(),
        required=False,
        empty_label="none (past usage)",
        widget=forms.Select(CHOICE),
    )
    trace_pool = forms.ChoiceField(label="Pool of the trace", required=False, widget=forms.Select(CHOICE))
    request_seconds = forms.FloatField(
        label="Device time per request",
        required=False,
        min_value=0.000_001,
        max_value=86_400,
        widget=forms.NumberInput({**NUMBER, "step": "any"}),
    )
    book = forms.TypedChoiceField(
        label="Price book", required=False, coerce=int, empty_value=None, widget=forms.Select(CHOICE)
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.slugs = sorted(pool_slugs())
        for slug in self.slugs:
            self.fields[f"devices-{slug}"] = forms.IntegerField(
                label=f"Devices of {slug}",
                initial=0,
                required=False,
                min_value=-DEVICES_MOST,
                max_value=DEVICES_MOST,
                widget=forms.NumberInput(NUMBER),
            )
        sites = Site.objects.filter(pools__is_active=True).distinct().order_by("slug")
        choices: dict[str, list[tuple[Any, str]]] = {
            "failed_sites": [(site.slug, site.name) for site in sites],
            "trace_pool": [(slug, slug) for slug in self.slugs],
            "book": [("", "no change"), *((v, f"version {v}") for v in _books())],
        }
        for name, some in choices.items():
            self.fields[name].choices = some  # type: ignore[attr-defined]
        self.fields["trace"].queryset = DemandTrace.objects.defer("hours", "seconds")  # type: ignore[attr-defined]

    @property
    def device_fields(self) -> list[forms.BoundField]:
        return [self[f"devices-{slug}"] for slug in self.slugs]

    def change(self) -> Change:
        """Return the change that was entered."""
        given = self.cleaned_data
        devices = {slug: given[f"devices-{slug}"] for slug in self.slugs if given.get(f"devices-{slug}")}
        return Change(
            devices,
            given["failed_sites"],
            given["power_percent"],
            given["demand_factor"],
            given["trace_pool"],
            given["request_seconds"] or 0.0,
            given["book"],
        )


def _books() -> list[int]:
    return list(PriceBook.objects.order_by("-version").values_list("version", flat=True)[:SHOWN])


class TraceForm(forms.Form):
    """A form to upload a trace of another system's requests."""

    file = forms.FileField(label="File", widget=forms.ClearableFileInput({"class": "form-control"}))
