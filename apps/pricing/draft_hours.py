"""A form for the tariff of a price book: time zone, periods, hours and holidays."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from itertools import product
from typing import Any, NamedTuple

from django import forms
from django.forms import BoundField

from apps.pricing.draft_fields import FACTOR_MOST, PlainText, factor_field
from apps.pricing.draft_forms import Document, SectionForm
from apps.pricing.rating import RatingError
from apps.pricing.rating.tariff import zone_of

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
HOURS = 24
GRIDS = {"weekday": "Weekdays", "weekend": "Weekends and holidays"}
PERIODS_MOST = 24
HOLIDAYS_MOST = 1000
RANGE = ("first", "last", "from", "until", "period")
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWX"


class GridCell(NamedTuple):
    """One hour of one month: the name of its control, the index of its period, and its label for screen readers."""

    name: str
    value: int
    label: str


class HoursForm(SectionForm):
    """A form for the tariff: zone, periods, grids and holidays."""

    title = "Tariff hours"

    def build(self) -> None:
        tariff = self.document["tariff"]
        self.count = len(tariff["periods"])
        zone = PlainText(label="Time zone", longest=60, help_text="For example, Europe/Berlin.")
        self.add("zone", zone, "tariff.zone", tariff["zone"])
        for index in range(self.count + (self.count < PERIODS_MOST)):
            self._period(index, tariff["periods"][index] if index < self.count else {})
        lines = "\n".join(f"{item['day']} {item['name']}" for item in tariff["holidays"])
        holidays = forms.CharField(
            label="Holidays",
            required=False,
            strip=False,
            max_length=100_000,
            widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}),
            help_text="One holiday on each line, such as 2026-12-25 Christmas Day. Holidays are treated as weekend days.",
        )
        self.add("holidays", holidays, "tariff.holidays", lines)
        self._range()

    def _period(self, index: int, item: dict[str, Any]) -> None:
        is_new, shown = not item, f"period {LETTERS[index]}"
        name = PlainText(label=f"Name, {shown}", longest=40, required=not is_new)
        self.add(f"period-{index}", name, f"tariff.periods[{index}].name", item.get("name"))
        off = forms.BooleanField(label=f"Off-peak, {shown}", required=False)
        self.add(f"off-{index}", off, f"tariff.periods[{index}].off_peak", item.get("off_peak", False))
        factor = factor_field(f"Factor, {shown}", most=FACTOR_MOST, above=True, required=False)
        self.add(f"factor-{index}", factor, f"tariff.periods[{index}].factor", item.get("factor", "1"))
        if not is_new and self.count > 1:
            self.add(f"remove-{index}", forms.BooleanField(label=f"Remove, {shown}", required=False))

    def _range(self) -> None:
        months, hours = list(enumerate(MONTHS)), [(hour, f"{hour:02d}:00") for hour in range(HOURS + 1)]
        periods = [(index, LETTERS[index]) for index in range(min(self.count + 1, PERIODS_MOST))]
        days = [("weekday", "Weekdays"), ("weekend", "Weekends"), ("both", "All days")]
        for name, label, choices, initial in (
            ("fill_days", "Days", days, "weekday"),
            ("fill_first", "First month", months, 0),
            ("fill_last", "Last month", months, 11),
            ("fill_from", "From", hours[:-1], 0),
            ("fill_until", "Until", hours[1:], 24),
            ("fill_period", "Period", periods, 0),
        ):
            self.add(name, forms.ChoiceField(label=label, choices=choices), "", initial)

    @property
    def rows(self) -> list[tuple[str, BoundField, BoundField, BoundField, BoundField | None]]:
        """The rows of the periods as (letter, name, off-peak, factor, remove). The last row is for a new period."""
        return [
            (
                LETTERS[index],
                self[f"period-{index}"],
                self[f"off-{index}"],
                self[f"factor-{index}"],
                self[f"remove-{index}"] if f"remove-{index}" in self.fields else None,
            )
            for index in range(self.count + (self.count < PERIODS_MOST))
        ]

    @property
    def choices(self) -> list[tuple[int, str]]:
        """The periods to choose from, as (index, letter)."""
        return [(index, row[0]) for index, row in enumerate(self.rows)]

    @property
    def range_fields(self) -> list[BoundField]:
        return [self[name] for name in self.fields if name.startswith("fill_")]

    @property
    def grids(self) -> list[tuple[str, list[tuple[str, list[GridCell]]]]]:
        """Both grids as (title, rows); each row is (month, 24 cells)."""
        return [
            (
                title,
                [
                    (
                        MONTHS[month],
                        [
                            GridCell(
                                f"{key}-{month}-{hour}",
                                self._index(key, month, hour),
                                f"{title}, {MONTHS[month]}, {hour:02d}:00",
                            )
                            for hour in range(HOURS)
                        ],
                    )
                    for month in range(len(MONTHS))
                ],
            )
            for key, title in GRIDS.items()
        ]

    def _index(self, key: str, month: int, hour: int) -> int:
        text = str(self.data.get(f"{key}-{month}-{hour}", "")) if self.is_bound else ""
        if text.isascii() and text.isdigit() and len(text) < 3:
            return int(text)
        return int(self.document["tariff"][key][month][hour])

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if values.get("zone"):
            try:
                zone_of(values["zone"])
            except RatingError:
                self.add_error("zone", "This time zone is not known. Enter a time zone such as Europe/Berlin or UTC.")
        values["matrices"] = self._filled(values)
        self._periods_check(values)
        values["days"] = self._holidays(values.get("holidays") or "")
        return values

    def _filled(self, values: dict[str, Any]) -> dict[str, list[list[int]]]:
        found = {
            key: [[self._index(key, month, hour) for hour in range(HOURS)] for month in range(len(MONTHS))]
            for key in GRIDS
        }
        if self.data.get("action") != "fill" or any(name.startswith("fill_") for name in self.errors):
            return found
        self._fill(found, values)
        return found

    def _fill(self, found: dict[str, list[list[int]]], values: dict[str, Any]) -> None:
        first, last, start, end, period = (int(values.get(f"fill_{name}") or 0) for name in RANGE)
        if first > last:
            self.add_error("fill_last", "The last month must not be before the first.")
        if start >= end:
            self.add_error("fill_until", "The range must end after it starts. To cross midnight, fill in two ranges.")
        days = values.get("fill_days") or "both"
        for key, month, hour in product(GRIDS, range(first, last + 1), range(start, end)):
            if days in {"both", key}:
                found[key][month][hour] = period

    def _kept(self, values: dict[str, Any]) -> list[int]:
        return [
            index
            for index in range(len(self.rows))
            if values.get(f"period-{index}") and not values.get(f"remove-{index}")
        ]

    def _periods_check(self, values: dict[str, Any]) -> None:
        kept = self._kept(values)
        used = {index for grid in values["matrices"].values() for row in grid for index in row}
        for index in sorted(used - set(kept)):
            name = f"period-{index}"
            if name in self.fields and name not in self.errors:
                sentence = (
                    f"Some hours still use period {LETTERS[index]}. Move these hours to another period first, or enter a "
                    "name for this period."
                )
                self.add_error(name, sentence)
            elif name not in self.fields:
                self.add_error(None, "An hour has a period that does not exist; reload the page.")
        names: dict[str, int] = {}
        for index in kept:
            name = values[f"period-{index}"]
            if name in names:
                self.add_error(f"period-{index}", f"Period {LETTERS[names[name]]} already has this name.")
            names[name] = index

    def _holidays(self, text: str) -> list[dict[str, str]]:
        found: dict[str, str] = {}
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            day, _, name = line.strip().partition(" ")
            fault = holiday_fault(day, name.strip())
            if fault or day in found:
                self.add_error("holidays", f"Line {number}: {fault or f'{day} is listed already.'}")
                return []
            found[day] = name.strip()
        if len(found) > HOLIDAYS_MOST:
            self.add_error("holidays", f"List at most {HOLIDAYS_MOST:,} holidays.")
        return [{"day": day, "name": name} for day, name in sorted(found.items())]

    def written(self) -> Document:
        values = self.cleaned_data
        kept = self._kept(values)
        place = {index: position for position, index in enumerate(kept)}
        matrices = {key: [[place[index] for index in row] for row in grid] for key, grid in values["matrices"].items()}
        tariff = {"zone": values["zone"], "periods": list(self._written(kept)), **matrices, "holidays": values["days"]}
        return {**self.document, "tariff": tariff}

    def _written(self, kept: list[int]) -> Iterator[dict[str, Any]]:
        values = self.cleaned_data
        for index in kept:
            period: dict[str, Any] = {"name": values[f"period-{index}"], "off_peak": values[f"off-{index}"]}
            factor = values[f"factor-{index}"]
            if factor and Decimal(factor) != 1:
                period["factor"] = factor
            yield period


def holiday_fault(day: str, name: str) -> str:
    """Return a sentence if a line of holidays is faulty; otherwise, return ""."""
    try:
        is_day = date.fromisoformat(day).isoformat() == day
    except ValueError:
        is_day = False
    if not is_day:
        return "start with a date such as 2026-12-25."
    if not name or len(name) > 60 or not name.isprintable():
        return "enter the name of the holiday after the date, in at most 60 characters."
    return ""
