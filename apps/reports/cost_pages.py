"""The page and the API for the cost of a device-hour by processor class."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods
from ninja import Field, Router, Schema

from apps.accounts.access import platform_admin_check, principal_get
from apps.accounts.auth import requires
from apps.accounts.bodies import RequestBody
from apps.accounts.idempotency import idempotent
from apps.accounts.numbers import Instant
from apps.accounts.paging import Cursor, page_of, paginate
from apps.accounts.problems import Problem
from apps.accounts.roles import Scope
from apps.fleet.models import Pool
from apps.invoicing.forms import PriceField
from apps.pricing.amounts import Code, currencies_offered, currency_chosen
from apps.pricing.rating import Currency, decimal_text
from apps.pricing.rating.decimals import PRICE_PLACES, decimal_of
from apps.reports.costs import costrate_set, processor_classes, rounded, segments
from apps.reports.models import CostRate

router = Router(tags=["capacity"])
PER_PAGE = 50
AT = ["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"]


class CostRateIn(RequestBody):
    """`per_hour` is a decimal as text. `currency` defaults to the currency of the price book in force."""

    processor_class: str = Field(max_length=20)
    per_hour: str = Field(max_length=40)
    effective_from: Instant
    currency: Code | None = None
    note: str = Field(default="", pattern=r"^[^\x00-\x1f]{0,200}$")


class CostRateOut(Schema):
    id: int
    processor_class: str
    per_hour: str
    currency: str
    effective_from: datetime
    note: str
    set_at: datetime

    @staticmethod
    def resolve_per_hour(rate: CostRate) -> str:
        return decimal_text(rate.per_hour)


@router.get(
    "/cost-rates",
    auth=requires(Scope.ADMIN),
    response=list[CostRateOut],
    operation_id="cost_rate_list",
    summary="Cost rates, most recently entered first",
)
@paginate(Cursor, ordering=("-id",))
def cost_rate_list(request: HttpRequest) -> QuerySet[CostRate]:
    """Rates can only be added. If several rates start at the same time, the rate entered last applies."""
    return CostRate.objects.all()


@router.post(
    "/cost-rates",
    auth=requires(Scope.ADMIN),
    response={201: CostRateOut},
    operation_id="cost_rate_create",
    summary="Enter the cost of a device-hour",
)
@idempotent
def cost_rate_create(request: HttpRequest, payload: CostRateIn) -> tuple[int, CostRate]:
    """The rate applies from `effective_from` until the next rate of the same class starts. `effective_from` may be in
    the past.
    """
    try:
        per_hour = decimal_of(payload.per_hour, places=PRICE_PLACES)
    except ValueError as error:
        raise Problem(422, "Impossible cost", f"{error}.", kind="cost-invalid") from error
    now = timezone.now()
    return 201, costrate_set(
        processor_class=payload.processor_class,
        per_hour=per_hour,
        currency=currency_chosen(payload.currency, now=now).code,
        effective_from=payload.effective_from,
        note=payload.note,
        actor=principal_get(request).user,
        now=now,
    )


class CostForm(forms.Form):
    """A form to set the cost per device-hour of a processor class."""

    processor_class = forms.ChoiceField(label="Processor class", widget=forms.Select(attrs={"class": "form-select"}))
    per_hour = PriceField(label="Cost of a device-hour")
    currency = forms.ChoiceField(label="Currency", required=False, widget=forms.Select(attrs={"class": "form-select"}))
    effective_from = forms.DateTimeField(
        label="From (UTC)",
        error_messages={"invalid": "Enter a date and a time, such as 2026-11-01 00:00."},
        input_formats=AT,
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "class": "form-control"}, format="%Y-%m-%dT%H:%M"),
    )
    note = forms.CharField(max_length=200, required=False, widget=forms.TextInput(attrs={"class": "form-control"}))

    def __init__(self, *args: Any, currencies: Sequence[Currency], **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["currency"].choices = [(one.code, one.code) for one in currencies]  # type: ignore[attr-defined]
        self.fields["processor_class"].choices = [(name, name) for name in processor_classes()]  # type: ignore[attr-defined]


@require_http_methods(["GET", "POST"])
def cost_list(request: HttpRequest) -> HttpResponse:
    """Show the current costs and every entered rate; a POST adds a rate."""
    principal, now = platform_admin_check(request), timezone.now()
    currencies = currencies_offered(now=now)
    currency = currencies[0].code
    first = now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    form, refusal = CostForm(request.POST or None, currencies=currencies, initial={"effective_from": first}), None
    if request.method == "POST" and form.is_valid():
        try:
            values = {**form.cleaned_data, "currency": form.cleaned_data["currency"] or currency}
            costrate_set(**values, actor=principal.user, now=now)
            messages.success(request, "The cost was added. Margins now include this cost.")
            return redirect("reports:cost_list")
        except Problem as problem:
            refusal = problem
    parts = segments(start=now, end=datetime.max.replace(tzinfo=UTC), currency=currency)
    context = {
        "form": form,
        "refusal": refusal,
        "currency": currency,
        "present": [(name, parts[0].per_hour.get(name)) for name in processor_classes()],
        "pools": [
            (pool, rounded(parts[0].rate(pool.processor_class, pool.pk)), pool.processor_class in parts[0].per_hour)
            for pool in Pool.objects.filter(is_active=True)
        ],
        "page": page_of(request, CostRate.objects.select_related("set_by"), ordering=("-id",), size=PER_PAGE),
    }
    return render(request, "reports/cost_list.html", context, status=422 if form.errors or refusal else 200)
