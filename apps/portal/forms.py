"""The forms of the portal."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from django import forms
from django.http import QueryDict

from apps.accounts.models import ApiToken, Organisation
from apps.invoicing.forms import AmountField, MoneyForm
from apps.ledger.models import UsageSum
from apps.portal.selectors import currencies_of
from apps.portal.usage import COLUMNS, NO_KEY, UsageQuery
from apps.registry.models import Project

DAYS_MOST = 366
FIRST_DAY = date(2000, 1, 1)
GROUPS = {"model": "Model", "project": "Project", "class": "Class", "key": "API token", "hours": "Tariff hours"}
assert GROUPS.keys() == COLUMNS.keys()


class UsageForm(forms.Form):
    """The filters of the usage page, read from the query string."""

    first = forms.DateField(label="From", widget=forms.DateInput(attrs={"type": "date"}))
    last = forms.DateField(label="To", widget=forms.DateInput(attrs={"type": "date"}))
    group = forms.ChoiceField(label="Group by", choices=list(GROUPS.items()))
    project = forms.ChoiceField(label="Project", required=False)
    model = forms.ChoiceField(label="Model", required=False)
    klass = forms.ChoiceField(label="Class", required=False)
    key = forms.ChoiceField(label="API token", required=False)
    currency = forms.ChoiceField(label="Currency", required=False)

    def __init__(self, query: QueryDict, *, organisation: Organisation, currency: str, now: datetime) -> None:
        today = now.astimezone(ZoneInfo(organisation.time_zone)).date()
        self.default = UsageQuery(first=today - timedelta(days=29), last=today, currency=currency)
        defaults = {"first": str(self.default.first), "last": str(today), "group": "model", "currency": currency}
        super().__init__({**defaults, **{name: query[name] for name in self.base_fields if query.get(name)}})
        used = UsageSum.objects.filter(organisation=organisation).order_by()
        projects = Project.objects.filter(organisation=organisation).order_by("name")
        keys = ApiToken.objects.filter(organisation=organisation).order_by("name", "created_at")
        self._choose("project", ((str(one.pk), one.name) for one in projects))
        self._choose(
            "model", ((name, name) for name in sorted(set(used.values_list("model_name", flat=True).distinct())))
        )
        self._choose("klass", ((name, name) for name in sorted(set(used.values_list("klass", flat=True).distinct()))))
        self.currencies = currencies_of(organisation, first=currency)
        self.fields["currency"].choices = [(code, code) for code in self.currencies]  # type: ignore[attr-defined]
        self._choose("key", [("none", NO_KEY), *((str(one.pk), f"{one.name} ({one.prefix})") for one in keys)])

    def _choose(self, name: str, choices: Any) -> None:
        self.fields[name].choices = [("", "All"), *choices]  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        first, last = values.get("first"), values.get("last")
        if first and last:
            if last < first:
                self.add_error("last", "The last day is before the first.")
            elif first < FIRST_DAY or last.year > 9998 or (last - first).days >= DAYS_MOST:
                self.add_error("last", f"Choose at most {DAYS_MOST} days.")
        return values

    def query(self) -> UsageQuery:
        """Return the query of these filters; the default query if a filter is invalid."""
        if not self.is_valid():
            return self.default
        values = self.cleaned_data
        key = values["key"]
        return UsageQuery(
            first=values["first"],
            last=values["last"],
            currency=values["currency"],
            group=values["group"],
            project=UUID(values["project"]) if values["project"] else None,
            model=values["model"],
            klass=values["klass"],
            key=UUID(key) if key not in {"", "none"} else None,
            without_key=key == "none",
        )


class ScopedCapForm(MoneyForm):
    """A form for a monthly cap and its scope. An empty amount removes the cap."""

    amount = AmountField(required=False, label="Monthly cap")
    scope = forms.ChoiceField(label="Applies to")

    def __init__(self, *values: object, organisation: Organisation, **options: object) -> None:
        super().__init__(*values, **options)  # type: ignore[arg-type]
        self.fields["scope"].choices = scope_choices(organisation)  # type: ignore[attr-defined]

    def scope_ids(self) -> dict[str, UUID]:
        """Return the chosen scope as a keyword argument; empty for the whole organisation."""
        kind, _, value = str(self.cleaned_data["scope"]).partition(":")
        return {f"{kind}_id": UUID(value)} if value else {}


def scope_choices(organisation: Organisation) -> list[tuple[str, str]]:
    """Return the scopes to choose from: the organisation, its projects, and its API tokens that are not revoked."""
    projects = Project.objects.filter(organisation=organisation).order_by("name")
    tokens = ApiToken.objects.filter(organisation=organisation, revoked_at=None).order_by("name")
    return [
        ("organisation", "the whole organisation"),
        *((f"project:{one.pk}", f"project {one.name}") for one in projects),
        *((f"token:{one.pk}", f"API token {one.name} ({one.prefix})") for one in tokens),
    ]
