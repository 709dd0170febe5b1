"""Forms to import files and to add machines."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from django import forms

from apps.currencies import PLACES
from apps.planner.hosting.cells import Format
from apps.planner.hosting_services import MONTHS_MAX, MachineFacts

KINDS = (
    (Format.OWN.value, "Your own list (CSV)"),
    (Format.SKYPILOT.value, "SkyPilot catalogue (CSV, USD per hour)"),
    (Format.FOCUS.value, "FOCUS 1.2 (CSV)"),
)
DAY = forms.DateInput({"type": "date"}, format="%Y-%m-%d")


def midnight(day: date | None) -> datetime | None:
    """Return the start of a day in UTC."""
    return None if day is None else datetime.combine(day, time(), UTC)


def names_of(text: str) -> list[str] | None:
    """Return the names in a comma-separated list; None if the text is empty."""
    return [one.strip() for one in text.split(",")] if text.strip() else None


class Marked(forms.Form):
    """A form for pages with several forms. The ids of its fields begin with `mark`."""

    mark = ""

    def __init__(self, data: Any = None, files: Any = None, initial: dict[str, Any] | None = None) -> None:
        super().__init__(data, files, auto_id=f"{self.mark}_%s", initial=initial)


class MeasurementForm(Marked):
    """A form to import a measurement file, with its machine names and validity."""

    mark = "measurement"
    file = forms.FileField(label="Measurement file (.json)", widget=forms.ClearableFileInput({"accept": ".json"}))
    machines = forms.CharField(
        required=False,
        max_length=800,
        label="Machine names",
        help_text=(
            "The names used in price lists and for your own machines, separated by commas. Leave empty to use the names "
            "in the file."
        ),
    )
    expires = forms.DateField(
        required=False, label="Valid until", widget=DAY, help_text="Leave empty for 90 days after the measurement."
    )


class ChangeForm(Marked):
    """A form to change the machine names or shorten the validity."""

    mark = "change"
    machines = forms.CharField(
        required=False,
        max_length=800,
        label="Machine names",
        help_text="The names used in price lists and for your own machines, separated by commas.",
    )
    expires = forms.DateField(
        required=False, label="Valid until", widget=DAY, help_text="You can only choose an earlier date."
    )


class PriceListForm(Marked):
    """A form to import a price list, with its source, date and validity."""

    mark = "prices"
    file = forms.FileField(label="Price list (.csv)", widget=forms.ClearableFileInput({"accept": ".csv"}))
    kind = forms.ChoiceField(choices=KINDS, label="Format")
    source = forms.CharField(max_length=80, label="Source", help_text="For example, the name of the cloud provider.")
    as_of = forms.DateField(label="Date", widget=DAY, help_text="The date of these prices.")
    expires = forms.DateField(
        required=False,
        label="Valid until",
        widget=DAY,
        help_text="Leave empty for 90 days after the date of the prices.",
    )


class MachineForm(Marked):
    """A form to add a machine that the organisation owns."""

    mark = "machine"
    name = forms.CharField(max_length=80, label="Name", help_text="The name that this machine has in its measurements.")
    capital = forms.DecimalField(max_digits=20, decimal_places=4, min_value=0, label="Purchase price")
    currency = forms.ChoiceField(choices=[(code, code) for code in sorted(PLACES)], initial="EUR", label="Currency")
    months = forms.IntegerField(min_value=1, max_value=MONTHS_MAX, initial=36, label="Depreciation (months)")
    watts = forms.DecimalField(max_digits=12, decimal_places=3, min_value=0, label="Power (W)")
    energy_price = forms.DecimalField(max_digits=18, decimal_places=9, min_value=0, label="Energy price per kWh")
    pue = forms.DecimalField(
        max_digits=6,
        decimal_places=3,
        min_value=1,
        max_value=10,
        initial=Decimal("1.0"),
        label="PUE",
        help_text="Power usage effectiveness of the building, for example 1.3.",
    )
    utilisation = forms.DecimalField(
        max_digits=7,
        decimal_places=3,
        min_value=Decimal("0.001"),
        max_value=100,
        initial=40,
        label="Utilisation (%)",
        help_text="The share of hours in which the machine can work.",
        error_messages={"min_value": "Enter a percentage above 0 and at most 100."},
    )

    def facts(self) -> MachineFacts:
        stated = self.cleaned_data
        share = stated["utilisation"] / 100
        return MachineFacts(**{**stated, "utilisation": share})
