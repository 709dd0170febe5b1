"""The forms on the fleet's pages."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django import forms

from apps.fleet.current import shipped
from apps.fleet.document import STATES, Document, Pool
from apps.fleet.document.model import HOST

AT = ["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"]


class SiteForm(forms.Form):
    """The form to change a site's name and time zone."""

    name = forms.CharField(max_length=80)
    time_zone = forms.CharField(label="Time zone", max_length=60, initial="UTC")


class NewSiteForm(SiteForm):
    """The form to create a site."""

    slug = forms.CharField(label="Short name", max_length=40)
    field_order = ("slug", "name", "time_zone")


class PoolForm(forms.Form):
    """The form to change a pool."""

    name = forms.CharField(max_length=80)
    site = forms.ChoiceField()
    processor = forms.ChoiceField()
    power_percent = forms.IntegerField(label="Power setting", min_value=1, max_value=100, initial=100, required=False)

    def __init__(self, *args: Any, document: Document, pool: Pool | None = None, **options: Any) -> None:
        if pool is not None:
            options["initial"] = {"name": pool.name, "site": pool.site, "processor": pool.processor}
            options["initial"]["power_percent"] = pool.power_percent
        super().__init__(*args, **options)
        own = sorted(set(shipped()) | set(document.processors))
        names = [name for name in (HOST, *own) if pool is None or (name == HOST) == pool.is_host]
        self._choices("site", [(slug, site.name) for slug, site in document.sites.items()])
        self._choices("processor", [(name, "host: this machine's CPU" if name == HOST else name) for name in names])

    def facts(self) -> dict[str, Any]:
        """Return the pool's facts, structured as in a fleet file."""
        given = {"class" if name == "klass" else name: value for name, value in self.cleaned_data.items()}
        return {name: value for name, value in given.items() if value not in {None, ""}}

    def _choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = choices


class NewPoolForm(PoolForm):
    """The form to create a pool."""

    slug = forms.CharField(label="Short name", max_length=40)
    devices = forms.IntegerField(min_value=0, initial=1)
    klass = forms.CharField(label="Price class", max_length=20, required=False)
    field_order = ("slug", "name", "site", "processor", "klass", "power_percent", "devices")


class CostForm(forms.Form):
    """The form to set the cost of a device, effective from a given time."""

    begins = forms.DateTimeField(
        label="From (UTC)",
        input_formats=AT,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )
    currency = forms.CharField(max_length=3, initial="EUR")
    capital = forms.CharField(label="Purchase price per device", max_length=40)
    months = forms.IntegerField(label="Depreciation (months)", min_value=1, initial=48)
    watts = forms.CharField(label="Power per device", max_length=40)
    energy_price = forms.CharField(label="Energy price", max_length=40)
    pue = forms.CharField(label="PUE", max_length=40, initial="1.2")

    def facts(self) -> dict[str, Any]:
        """Return the cost, structured as in a fleet file."""
        given = dict(self.cleaned_data)
        begins: datetime = given.pop("begins")
        return {"from": begins.astimezone(UTC).isoformat(), **given}


class DevicesForm(forms.Form):
    """The form to add devices to a pool."""

    count = forms.IntegerField(min_value=1, initial=1)
    state = forms.ChoiceField(choices=[(state, state) for state in STATES])
