"""The quota tree page."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from apps.accounts.access import organisation_get, principal_get
from apps.accounts.models import ApiToken, Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.roles import ANY_ROLE, MONEY
from apps.registry.models import Project
from apps.sales.models import QuotaNode
from apps.sales.quota_tree import Use
from apps.sales.services.nodes import node_name, node_set, tree_with_use

HOUR = 3600 * 10**6


def _hours(**options: Any) -> forms.DecimalField:
    return forms.DecimalField(
        min_value=Decimal(0), max_value=Decimal(10**6), decimal_places=4, required=False, **options
    )


class NodeForm(forms.Form):
    """A form for one quota of the tree, in hours of device time. An empty nominal amount removes the quota."""

    project = forms.ModelChoiceField(Project.objects.none(), required=False, empty_label="The whole organisation")
    token = forms.ModelChoiceField(
        ApiToken.objects.none(), required=False, label="API token", empty_label="All API tokens"
    )
    nominal = _hours(
        label="Device time",
        help_text="The device time that may be reserved in advance. Leave empty to remove this quota.",
    )
    lending = _hours(
        label="Lends at most", help_text="Unused time that others may borrow. Leave empty to lend all unused time."
    )
    borrowing = _hours(
        label="Borrows at most",
        help_text="Device time that may be borrowed beyond this quota. Leave empty to borrow all that others lend.",
    )

    def __init__(self, *args: Any, organisation: Organisation, **options: Any) -> None:
        super().__init__(*args, **options)
        of_ours = {"organisation": organisation}
        self.fields["project"].queryset = Project.objects.filter(**of_ours).order_by("name")  # type: ignore[attr-defined]
        tokens = ApiToken.objects.filter(**of_ours, revoked_at=None).order_by("name")
        self.fields["token"].queryset = tokens  # type: ignore[attr-defined]


@require_http_methods(["GET", "POST"])
def quota_tree(request: HttpRequest) -> HttpResponse:
    """Show the quota tree. POST sets one quota."""
    organisation = organisation_get(request, roles=MONEY if request.method == "POST" else ANY_ROLE)
    now, refusal = timezone.now(), None
    form = NodeForm(request.POST or None, organisation=organisation)
    if request.method == "POST" and form.is_valid():
        try:
            _set(form, organisation, principal_get(request).user, now)
        except Problem as problem:
            refusal = problem
        else:
            messages.success(request, "Saved. The quota applies to every reservation from now on.")
            return redirect("sales:quota_tree")
    rows = [_row(row, use) for row, use in tree_with_use(organisation, now=now)]
    status = refusal.status if refusal else 422 if form.errors else 200
    return render(request, "sales/quota_tree.html", {"rows": rows, "form": form, "refusal": refusal}, status=status)


def _set(form: NodeForm, organisation: Organisation, actor: User | None, now: datetime) -> None:
    given = form.cleaned_data
    node_set(
        organisation=organisation,
        project_id=given["project"].pk if given["project"] else None,
        token_id=given["token"].pk if given["token"] else None,
        nominal_us=_micros(given["nominal"]),
        lending_us=_micros(given["lending"]),
        borrowing_us=_micros(given["borrowing"]),
        actor=actor,
        now=now,
    )


def _row(row: QuotaNode, use: Use) -> dict[str, Any]:
    return {
        "row": row,
        "use": use,
        "name": node_name(row),
        "depth": (row.project_id is not None) + (row.token_id is not None),
        "nominal": Fraction(row.nominal_us, 10**6),
        "used": Fraction(use.used, 10**6),
        "free": Fraction(use.free, 10**6),
        "borrowed": Fraction(use.borrowed, 10**6),
        "lends": None if row.lending_us is None else Fraction(row.lending_us, 10**6),
        "borrows": None if row.borrowing_us is None else Fraction(row.borrowing_us, 10**6),
        "bar": min(100, use.used * 100 // max(row.nominal_us, use.used, 1)),
    }


def _micros(hours: Decimal | None) -> int | None:
    return None if hours is None else int(Fraction(hours) * HOUR)
