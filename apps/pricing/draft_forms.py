"""Forms for sections of a price book: the base class, the prices, and the classes of service.

A valid form returns the document with its section changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from django import forms
from django.forms import BoundField
from django.forms.utils import ErrorDict

from apps.compilation.models import Precision
from apps.pricing.draft_fields import (
    FACTOR_MOST,
    PlainText,
    WholeNumber,
    factor_field,
    key_field,
    price_field,
)
from apps.pricing.services import CLASS_NAME_MAX

Document = dict[str, Any]
MINUTES_MOST = 60 * 24 * 366
NOTICE_MINUTES_MOST = 60 * 24 * 62
OPERATIONS_MOST = 10**12


class SectionForm(forms.Form):
    """A form for one section of a document. `places` maps the name of each field to a path in the document."""

    title: ClassVar[str]

    def __init__(self, document: Document, data: Any = None) -> None:
        super().__init__(data)
        self.document = document
        self.places: dict[str, str] = {}
        self.build()

    def build(self) -> None:
        """Add the fields."""
        raise NotImplementedError

    def written(self) -> Document:
        """Return the document with this section as entered. The form must be valid."""
        raise NotImplementedError

    def add(self, name: str, field: forms.Field, place: str = "", initial: Any = None) -> None:
        """Add a field that edits a path in the document."""
        field.initial = initial
        self.fields[name] = field
        if place:
            self.places[name] = place

    def faults_show(self, faults: Iterable[str]) -> list[str]:
        """Show each fault beside the field that the fault names, and return the other faults."""
        others = []
        found = ErrorDict()
        by_place = sorted(self.places.items(), key=lambda item: -len(item[1]))
        for fault in faults:
            named = next(((one, place) for one, place in by_place if _names(fault, place)), None)
            if named is None:
                others.append(fault)
            else:
                name, place = named
                found.setdefault(name, self.error_class()).append(sentence_of(fault.removeprefix(place)))
        if not self.is_bound:
            self._errors = found  # fields show them like errors of an entry
        return others


def _names(fault: str, place: str) -> bool:
    return fault.startswith(place) and fault[len(place) : len(place) + 1] in {":", " "}


def sentence_of(fault: str) -> str:
    """Return a fault's text as a sentence. The caller may already have removed the path from the text."""
    text = fault.removeprefix(":").strip()
    text = f"This {text}" if text.startswith(("is ", "has ", "lacks ")) else f"{text[:1].upper()}{text[1:]}"
    return text if text.endswith(".") else f"{text}."


class PricesForm(SectionForm):
    """A form for prices and minimum operations per cycle, by processor class and precision."""

    title = "Prices"

    def build(self) -> None:
        found = {name for row in self.document["prices"].values() for name in row}
        self.precisions = sorted({*Precision.values, *found})
        self.add("new", key_field("New processor class", "new class"))
        for name in [*sorted(self.document["prices"]), ""]:
            prices = self.document["prices"].get(name, {})
            least = self.document["minimum_operations_per_cycle"].get(name, {})
            for precision in self.precisions:
                minimum = least.get(precision) if isinstance(least, dict) else least
                price = price_field(f"Price, {name or 'new class'}, {precision}")
                self.add(f"price-{name}-{precision}", price, f"prices.{name}.{precision}", prices.get(precision))
                fewest = WholeNumber(
                    label=f"Minimum operations per cycle, {name or 'new class'}, {precision}",
                    least=0,
                    most=OPERATIONS_MOST,
                    required=False,
                )
                place = f"minimum_operations_per_cycle.{name}"
                place = f"{place}.{precision}" if isinstance(least, dict) else place
                self.add(f"minimum-{name}-{precision}", fewest, place, minimum if precision in prices else None)

    @property
    def rows(self) -> list[tuple[str, list[BoundField], list[BoundField]]]:
        """The rows of the table as (class, prices, minimums). The last row is for a new class."""
        return [
            (
                name,
                [self[f"price-{name}-{precision}"] for precision in self.precisions],
                [self[f"minimum-{name}-{precision}"] for precision in self.precisions],
            )
            for name in [*sorted(self.document["prices"]), ""]
        ]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        for name in [*sorted(self.document["prices"]), ""]:
            for precision in self.precisions:
                self._pair_check(name, precision, values)
        self._new_check(values)
        names = [*self.document["prices"], *([""] if values.get("new") else [])]
        if not self.errors and not any(any(self._prices(values, one)) for one in names):
            self.add_error(None, "Enter a price for at least one processor class.")
        return values

    def _new_check(self, values: dict[str, Any]) -> None:
        new, has_prices = values.get("new"), any(self._prices(values, ""))
        if new and new in self.document["prices"]:
            self.add_error("new", f"There is already a class {new}; choose another name.")
        elif new and not has_prices:
            self.add_error("new", "Enter a price for the new class, or leave its name empty.")
        elif has_prices and not new and "new" not in self.errors:
            self.add_error("new", "Name the new processor class, or clear its prices.")

    def _pair_check(self, name: str, precision: str, values: dict[str, Any]) -> None:
        price, minimum = f"price-{name}-{precision}", f"minimum-{name}-{precision}"
        if price in self.errors or minimum in self.errors:
            return
        if values.get(price) and values.get(minimum) is None:
            self.add_error(
                minimum, "Enter the minimum number of operations billed per cycle, or 0 if the cycles are not proven."
            )
        elif values.get(minimum) is not None and not values.get(price):
            self.add_error(price, "Enter a price above 0, or clear the minimum operations too.")

    def _prices(self, values: dict[str, Any], name: str) -> list[str]:
        return [values.get(f"price-{name}-{precision}") or "" for precision in self.precisions]

    def written(self) -> Document:
        values = self.cleaned_data
        prices: dict[str, dict[str, str]] = {}
        minimums: dict[str, Any] = {}
        for name in [*sorted(self.document["prices"]), ""]:
            sold = [one for one in self.precisions if values[f"price-{name}-{one}"]]
            key = name or values["new"]
            if sold and key:
                prices[key] = {one: values[f"price-{name}-{one}"] for one in sold}
                least = {one: values[f"minimum-{name}-{one}"] for one in sold}
                minimums[key] = self._minimum(name, least)
        return {**self.document, "prices": prices, "minimum_operations_per_cycle": minimums}

    def _minimum(self, name: str, least: dict[str, int]) -> int | dict[str, int]:
        had = self.document["minimum_operations_per_cycle"].get(name)
        if not isinstance(had, dict) and len(set(least.values())) == 1:
            return next(iter(least.values()))
        return least


class ClassesForm(SectionForm):
    """A form for the classes of service with their price factors and promises."""

    title = "Classes of service"
    parts: ClassVar[tuple[str, ...]] = (
        "title",
        "promise",
        "offered",
        "surcharge",
        "discount",
        "unused",
        "time_of_use",
        "off_peak_only",
        "start_within_minutes",
        "finish_within_minutes",
        "notice_minutes",
        "share",
        "remove",
    )

    def build(self) -> None:
        classes = self.document["classes"]
        self.names = sorted(classes, key=lambda name: (not classes[name]["offered"], classes[name]["title"]))
        for name in self.names:
            self._class(name, classes[name])
        self.add("new", key_field("New class", "night_batch"))

    def _class(self, name: str, item: dict[str, Any]) -> None:
        for part, (field, initial) in {**_price_fields(item), **_promise_fields(item)}.items():
            nested = {"notice_minutes": "late_cancellation.notice_minutes", "share": "late_cancellation.share"}
            place = "" if part == "remove" else f"classes.{name}.{nested.get(part, part)}"
            self.add(f"{part}-{name}", field, place, initial)

    @property
    def rows(self) -> list[tuple[str, dict[str, BoundField]]]:
        """The rows of the table as (class, fields by part)."""
        return [(name, {part: self[f"{part}-{name}"] for part in self.parts}) for name in self.document["classes"]]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        for name in self.names:
            self._late_check(name, values)
        kept = [name for name in self.names if not values.get(f"remove-{name}")]
        new = values.get("new")
        if new and new in self.document["classes"]:
            self.add_error("new", f"There is already a class {new}; choose another key.")
        elif new and len(new) > CLASS_NAME_MAX:
            self.add_error("new", f"Enter a key of at most {CLASS_NAME_MAX} characters.")
        if not kept and not new:
            self.add_error(None, "Keep at least one class of service.")
        return values

    def _late_check(self, name: str, values: dict[str, Any]) -> None:
        notice, share = values.get(f"notice_minutes-{name}"), values.get(f"share-{name}")
        if notice is not None and share == "" and f"share-{name}" not in self.errors:
            self.add_error(f"share-{name}", "Enter the share of the price, or leave the notice period empty.")
        if share and notice is None and f"notice_minutes-{name}" not in self.errors:
            self.add_error(f"notice_minutes-{name}", "Enter the notice period in minutes, or leave the share empty.")

    def written(self) -> Document:
        classes = {
            name: self._written(name, item)
            for name, item in self.document["classes"].items()
            if not self.cleaned_data[f"remove-{name}"]
        }
        new = self.cleaned_data["new"]
        if new:
            classes[new] = {
                "title": new.replace("_", " ").replace("-", " ").capitalize(),
                "promise": "Runs in the first free windows of the period that you choose.",
                "surcharge": "1",
                "discount": "1",
                "unused": "0",
                "off_peak_only": False,
                "start_within_minutes": None,
                "finish_within_minutes": None,
                "offered": False,
            }
        return {**self.document, "classes": classes}

    def _written(self, name: str, item: dict[str, Any]) -> dict[str, Any]:
        value = {part: self.cleaned_data[f"{part}-{name}"] for part in self.parts}
        optional = {"time_of_use", "late_cancellation"}
        written = {key: value[key] for key in item if key not in optional}
        if value["time_of_use"]:
            written["time_of_use"] = True
        if value["notice_minutes"] is not None:
            written["late_cancellation"] = {"notice_minutes": value["notice_minutes"], "share": value["share"]}
        return written


_Fields = dict[str, tuple[forms.Field, Any]]


def _price_fields(item: dict[str, Any]) -> _Fields:
    return {
        "title": (PlainText(label="Title", longest=60), item["title"]),
        "promise": (
            PlainText(label="Promise", longest=400, widget=forms.TextInput(attrs={"class": "wide"})),
            item["promise"],
        ),
        "offered": (forms.BooleanField(label="Offered to customers", required=False), item["offered"]),
        "surcharge": (
            factor_field("Surcharge", least=1, most=FACTOR_MOST, help_text="1 for none; 1.75 adds 75 %."),
            item["surcharge"],
        ),
        "discount": (
            factor_field("Discount", above=True, help_text="1 for none; 0.6 takes 40 % off."),
            item["discount"],
        ),
        "unused": (
            factor_field("Price of unused time", help_text="Share of the price; 0 for no charge."),
            item["unused"],
        ),
    }


def _promise_fields(item: dict[str, Any]) -> _Fields:
    late = item.get("late_cancellation") or {}
    minutes: dict[str, Any] = {"least": 1, "most": MINUTES_MOST, "required": False}
    return {
        "time_of_use": (
            forms.BooleanField(label="Price follows the tariff hours", required=False),
            item.get("time_of_use", False),
        ),
        "off_peak_only": (forms.BooleanField(label="Off-peak hours only", required=False), item["off_peak_only"]),
        "start_within_minutes": (
            WholeNumber(label="Starts within", help_text="Minutes after acceptance.", **minutes),
            item["start_within_minutes"],
        ),
        "finish_within_minutes": (
            WholeNumber(label="Finishes within", help_text="Minutes after acceptance.", **minutes),
            item["finish_within_minutes"],
        ),
        "notice_minutes": (
            WholeNumber(
                label="Late cancellation: notice",
                least=0,
                most=NOTICE_MINUTES_MOST,
                required=False,
                help_text="Minutes before the reserved time. Leave empty for no late-cancellation charge.",
            ),
            late.get("notice_minutes"),
        ),
        "share": (
            factor_field("Late cancellation: price", above=True, required=False, help_text="Share of the price."),
            late.get("share"),
        ),
        "remove": (forms.BooleanField(label="Remove this class", required=False), False),
    }
