"""The export in FOCUS 1.2 columns says what the specification asks for, and sums to what the invoice asks for."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.billing.focus import COLUMNS, focus_csv, focus_rows
from apps.billing.models import BillingProfile
from apps.pricing.rating import exact_sum
from apps.pricing.rating.decimals import multiply
from tests.billing.tenancy import an_invoice_of
from tests.cast import Cast
from tests.sales.tenancy import a_contract_of
from tests.sales.test_contracts import run

pytestmark = pytest.mark.django_db
SPECIFICATION = Path(__file__).parent / "focus_spec.txt"
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
NUMBER = re.compile(r"-?\d+(\.\d+)?")
PRICED = ("PricingQuantity", "PricingUnit", "ListUnitPrice", "SkuId", "SkuPriceId", "PricingCategory")


def exported(cast: Cast) -> list[dict[str, str]]:
    now = timezone.now()
    rows = focus_rows(organisation=cast.organisation, start=now - timedelta(days=1), end=now + timedelta(days=1))
    return list(csv.DictReader("".join(focus_csv(rows)).splitlines()))


def mandatory() -> list[tuple[str, str, bool]]:
    lines = [line.split() for line in SPECIFICATION.read_text().splitlines() if not line.startswith("#")]
    return [(name, kind, nullable == "yes") for name, kind, nullable in lines]


def check_row(row: dict[str, str]) -> None:
    for name, kind, nullable in mandatory():
        value = row[name]
        assert nullable or value, f"{name} is null"
        if value and kind == "decimal":
            assert NUMBER.fullmatch(value), (name, value)
        if value and kind == "datetime":
            assert INSTANT.fullmatch(value), (name, value)
    assert row["ChargeCategory"] in {"Usage", "Purchase", "Tax", "Credit", "Adjustment"}
    assert row["ChargeClass"] in {"", "Correction"}
    assert row["BillingPeriodStart"] < row["BillingPeriodEnd"]
    assert row["ChargePeriodStart"] < row["ChargePeriodEnd"]
    assert bool(row["PricingQuantity"]) == bool(row["PricingUnit"])
    for name in PRICED:
        assert bool(row[name]) == (row["ChargeCategory"] == "Usage"), name
    if row["PricingQuantity"]:
        quantity = Decimal(row["PricingQuantity"])
        assert multiply(quantity, Decimal(row["ListUnitPrice"])) == Decimal(row["ListCost"])
        assert multiply(quantity, Decimal(row["ContractedUnitPrice"])) == Decimal(row["ContractedCost"])
        json.loads(row["SkuPriceDetails"])


def test_every_mandatory_column_is_there_with_its_type_and_nulls(cast: Cast) -> None:
    known = {column.name: column for column in COLUMNS}
    assert len(mandatory()) == 21
    for name, kind, nullable in mandatory():
        assert (known[name].kind, known[name].nullable) == (kind, nullable)
    assert all(re.fullmatch(r"(x_)?[A-Z][A-Za-z]+", column.name) for column in COLUMNS)
    BillingProfile.objects.create(organisation=cast.organisation, tax_rate=Decimal("0.19"))
    an_invoice_of(cast, executions=10**6)
    rows = exported(cast)
    assert {row["ChargeCategory"] for row in rows} == {"Usage", "Adjustment", "Tax"}
    for row in rows:
        check_row(row)


def test_the_billed_cost_of_an_invoice_is_what_it_asks_to_be_paid(cast: Cast) -> None:
    BillingProfile.objects.create(organisation=cast.organisation, tax_rate=Decimal("0.19"))
    invoice = an_invoice_of(cast, executions=1_234_567)
    rows = [row for row in exported(cast) if row["InvoiceId"] == invoice.number]
    net = [Decimal(row["BilledCost"]) for row in rows if row["ChargeCategory"] != "Tax"]
    assert exact_sum(net) == invoice.payable
    assert exact_sum(Decimal(row["BilledCost"]) for row in rows) == invoice.due
    assert invoice.tax > 0
    usage = [Decimal(row["BilledCost"]) for row in rows if row["ChargeCategory"] == "Usage"]
    assert exact_sum(usage) == invoice.net


def test_usage_on_no_invoice_has_no_invoice_number(cast: Cast) -> None:
    contract = a_contract_of(cast)
    run(contract, 250, now=timezone.now())
    (row,) = exported(cast)
    check_row(row)
    assert (row["InvoiceId"], row["x_Executions"], row["ChargeCategory"]) == ("", "250", "Usage")


def test_the_page_and_the_api_give_the_same_file(cast: Cast, as_user: Callable[[User], Client]) -> None:
    an_invoice_of(cast)
    client = as_user(cast.viewer)
    day = timezone.now().date()
    span = (day.isoformat(), (day + timedelta(days=1)).isoformat())
    files = [
        b"".join(client.get(url).streaming_content)  # type: ignore[attr-defined]
        for url in (
            f"/portal/focus.csv?from={span[0]}&to={span[1]}",
            "/api/v1/usage/focus?start={}&end={}".format(*span),
        )
    ]
    assert files[0] == files[1]
    assert len(files[0].splitlines()) == 3
    other = b"".join(as_user(cast.stranger).get("/portal/focus.csv").streaming_content)  # type: ignore[attr-defined]
    assert len(other.splitlines()) == 1
    assert client.get("/api/v1/usage/focus?start=2026-11-02&end=2026-11-01").status_code == 422
