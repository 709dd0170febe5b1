"""The forms in which files are imported and machines are stated."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from django import forms

from apps.currencies import PLACES
from apps.planner.hosting.cells import Format
from apps.planner.hosting_services import MONTHS_MAX, MachineFacts

KINDS = (
    (Format.OWN.value, "A list of your own (CSV)"),
    (Format.SKYPILOT.value, "SkyPilot catalogue (CSV, in USD an hour)"),
    (Format.FOCUS.value, "FOCUS 1.2 (CSV)"),
)
DAY = forms.DateInput({"type": "date"}, format="%Y-%m-%d")


def midnight(day: date | None) -> datetime | None:
    """The first instant of a day, in UTC."""
    return None if day is None else datetime.combine(day, time(), UTC)


def names_of(text: str) -> list[str] | None:
    """Names with commas between them; None for an empty text."""
    return [one.strip() for one in text.split(",")] if text.strip() else None


class Marked(forms.Form):
    """A form of a page that has several: the ids of its fields begin with its `mark`."""

    mark = ""

    def __init__(self, data: Any = None, files: Any = None, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, files, auto_id=f"{self.mark}_%s", initial=initial)


class MeasurementForm(Marked):
    """A measurement's file, and what is stated of it."""

    mark = "measurement"
    file = forms.FileField(label="Measurement file (.json)", widget=forms.ClearableFileInput({"accept": ".json"}))
    machines = forms.CharField(
        required=False,
        max_length=800,
        label="Names of the machine",
        help_text="As price lists and your own machines know it, with commas between them. Empty: those of the file.",
    )
    expires = forms.DateField(
        required=False, label="Use it until", widget=DAY, help_text="Empty: for 90 days after it was measured."
    )


class ChangeForm(Marked):
    """Other names, or an earlier end."""

    mark = "change"
    machines = forms.CharField(
        required=False,
        max_length=800,
        label="Names of the machine",
        help_text="As price lists and your own machines know it, with commas between them.",
    )
    expires = forms.DateField(
        required=False, label="Use it until", widget=DAY, help_text="It can only be brought forward."
    )


class PriceListForm(Marked):
    """A price list's file, and what is stated of it."""

    mark = "prices"
    file = forms.FileField(label="Price list (.csv)", widget=forms.ClearableFileInput({"accept": ".csv"}))
    kind = forms.ChoiceField(choices=KINDS, label="Format")
    source = forms.CharField(max_length=80, label="Where it comes from", help_text="For example the name of the cloud.")
    as_of = forms.DateField(label="Prices of", widget=DAY, help_text="The day on which these prices held.")
    expires = forms.DateField(
        required=False, label="Use it until", widget=DAY, help_text="Empty: for 90 days after that day."
    )


class MachineForm(Marked):
    """A machine of one's own."""

    mark = "machine"
    name = forms.CharField(max_length=80, label="Name", help_text="One of the names that its measurements state.")
    capital = forms.DecimalField(max_digits=20, decimal_places=4, min_value=0, label="Purchase price")
    currency = forms.ChoiceField(choices=[(code, code) for code in sorted(PLACES)], initial="EUR", label="Currency")
    months = forms.IntegerField(min_value=1, max_value=MONTHS_MAX, initial=36, label="Written off over, months")
    watts = forms.DecimalField(max_digits=12, decimal_places=3, min_value=0, label="Power while it works, watts")
    energy_price = forms.DecimalField(max_digits=18, decimal_places=9, min_value=0, label="Energy, price of a kWh")
    pue = forms.DecimalField(
        max_digits=6,
        decimal_places=3,
        min_value=1,
        max_value=10,
        initial=Decimal("1.0"),
        label="PUE",
        help_text="What the building draws for each watt of the machine, such as 1.3.",
    )
    utilisation = forms.DecimalField(
        max_digits=7,
        decimal_places=3,
        min_value=0,
        max_value=100,
        initial=40,
        label="Utilisation, per cent",
        help_text="The share of hours in which it can be given work.",
    )

    def facts(self) -> MachineFacts:
        """What the service takes."""
        stated = self.cleaned_data
        share = stated["utilisation"] / 100
        return MachineFacts(**{**stated, "utilisation": share})
