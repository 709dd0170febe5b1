"""A form for the general terms of a price book: currency, notice, minimums and commitment discounts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, ClassVar

from django import forms
from django.forms import BoundField

from apps.currencies import PLACES
from apps.pricing.draft_fields import WholeNumber, amount_field, factor_field, key_field
from apps.pricing.draft_forms import MINUTES_MOST, Document, SectionForm


class TermsForm(SectionForm):
    """A form for the general terms of a price book."""

    title = "Terms"
    amounts: ClassVar[dict[str, tuple[str, str]]] = {
        "minimum_charge": ("Minimum monthly charge", "For a month with usage; empty or 0 for none."),
        "contract_minimum": (
            "Contract minimum",
            "The minimum price of a contract. Leave empty or enter 0 for no minimum.",
        ),
        "free_tera_operations": ("Free every month", "Tera-operations; empty or 0 for none."),
    }

    def build(self) -> None:
        document = self.document
        self.add(
            "currency",
            forms.ChoiceField(label="Currency", choices=[(code, code) for code in sorted(PLACES)]),
            "currency",
            document["currency"]["code"],
        )
        self.add(
            "notice_days",
            WholeNumber(label="Notice before prices change", least=0, most=3650),
            "notice_days",
            document["notice_days"],
        )
        self.add(
            "quote_validity_minutes",
            WholeNumber(
                label="A quote is valid for", least=1, most=MINUTES_MOST, help_text="In minutes; a day has 1,440."
            ),
            "quote_validity_minutes",
            document["quote_validity_minutes"],
        )
        self.add(
            "floor",
            factor_field("Floor", help_text="Nothing is sold below this share of the list price; 0.25 is 25 %."),
            "floor",
            document["floor"],
        )
        self.add(
            "missed_guarantee",
            factor_field(
                "Credit for missed guaranteed work", help_text="Share of the price of the missed work; 1 is 100 %."
            ),
            "missed_guarantee",
            document.get("missed_guarantee", "1"),
        )
        for key, (label, hint) in self.amounts.items():
            self.add(key, amount_field(label, help_text=hint), key, document.get(key, "0"))
        factors = document["commitments"]
        self.names = sorted(set(factors) - {"none"}, key=lambda name: (-Decimal(factors[name]), name))
        for name in [*self.names, ""]:
            self._commitment(name)
        self.add("new", key_field("New commitment", "new commitment"))

    def _commitment(self, name: str) -> None:
        shown = name or "new commitment"
        factor = factor_field(f"Factor, {shown}", above=True, required=False)
        self.add(f"factor-{name}", factor, f"commitments.{name}", self.document["commitments"].get(name))
        days = WholeNumber(label=f"Term in days, {shown}", least=1, most=3660, required=False)
        stated = self.document.get("commitment_days", {}).get(name)
        self.add(f"days-{name}", days, f"commitment_days.{name}", stated)

    @property
    def rows(self) -> list[tuple[str, BoundField, BoundField]]:
        """The rows of the commitments as (commitment, factor, days). The last row is for a new commitment."""
        return [(name, self[f"factor-{name}"], self[f"days-{name}"]) for name in [*self.names, ""]]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        new, factor = values.get("new"), values.get("factor-")
        if new and (new == "none" or new in self.names):
            self.add_error("new", f"There is already a commitment {new}; choose another name.")
        elif new and not factor and "factor-" not in self.errors:
            self.add_error("factor-", "Enter the factor of the new commitment; 0.9 takes 10 % off.")
        elif factor and not new and "new" not in self.errors:
            self.add_error("new", "Name the new commitment, or clear its factor.")
        for name in self.names:
            self._days_check(name, values)
        return values

    def _days_check(self, name: str, values: dict[str, Any]) -> None:
        if values.get(f"days-{name}") and not values.get(f"factor-{name}") and f"factor-{name}" not in self.errors:
            self.add_error(f"factor-{name}", "Enter a factor. To remove the commitment, clear the days too.")

    def written(self) -> Document:
        values = self.cleaned_data
        code = values["currency"]
        same = code == self.document["currency"]["code"]
        written = {
            **self.document,
            "currency": self.document["currency"] if same else {"code": code, "exponent": PLACES[code]},
            **{key: values[key] for key in ("notice_days", "quote_validity_minutes", "floor")},
        }
        for key, usual in (("missed_guarantee", "1"), *((key, "0") for key in self.amounts)):
            written.pop(key, None)
            if values[key] and Decimal(values[key]) != Decimal(usual):
                written[key] = values[key]
        return self._commitments_written(written)

    def _commitments_written(self, document: Document) -> Document:
        values = self.cleaned_data
        rows = [(name or values["new"], name) for name in [*self.names, ""] if values[f"factor-{name}"]]
        days = {key: values[f"days-{name}"] for key, name in rows if values[f"days-{name}"]}
        factors = {key: values[f"factor-{name}"] for key, name in rows}
        written = {**document, "commitments": {"none": "1", **factors}}
        written.pop("commitment_days", None)
        return {**written, "commitment_days": days} if days else written
