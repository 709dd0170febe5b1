"""The export in FOCUS 1.2 columns says what the specification asks for, and sums to what the invoice asks for."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pyarrow import parquet

from apps.accounts.models import User
from apps.invoicing.focus import focus_rows
from apps.invoicing.focus_columns import COLUMNS
from apps.invoicing.focus_files import focus_csv
from apps.invoicing.models import BillingProfile
from apps.invoicing.services import credit_note_issue
from apps.ledger.models import UsageRow
from apps.pricing.rating import exact_sum
from tests.cast import Cast
from tests.dispatch.scene import Scene
from tests.invoicing.focus_rules import rules
from tests.invoicing.tenancy import an_invoice_of
from tests.sales.market import open_market
from tests.sales.tenancy import a_contract_of
from tests.sales.test_contracts import run

pytestmark = pytest.mark.django_db
SPECIFICATION = Path(__file__).parent / "focus_spec.txt"
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
NUMBER = re.compile(r"-?\d+(\.\d+)?")
MORE = Path(__file__).parent / "focus_spec_more.txt"


def exported(cast: Cast) -> list[dict[str, str]]:
    now = timezone.now()
    rows = focus_rows(organisation=cast.organisation, start=now - timedelta(days=1), end=now + timedelta(days=1))
    return list(csv.DictReader("".join(focus_csv(rows)).splitlines()))


def mandatory() -> list[tuple[str, str, bool]]:
    lines = [line.split() for line in SPECIFICATION.read_text().splitlines() if not line.startswith("#")]
    return [(name, kind, nullable == "yes") for name, kind, nullable in lines]


def specified() -> list[tuple[str, str, bool, list[str]]]:
    found = []
    for line in MORE.read_text().splitlines():
        if not line.startswith("#"):
            name, kind, nullable, *values = line.split()
            found.append((name, kind, nullable == "yes", values[0].split(",") if values else []))
    return found


def check_row(row: dict[str, str]) -> None:
    for name, kind, nullable in [*mandatory(), *(one[:3] for one in specified())]:
        value = row[name]
        assert nullable or value, f"{name} is null"
        if value and kind == "decimal":
            assert NUMBER.fullmatch(value), (name, value)
        if value and kind == "datetime":
            assert INSTANT.fullmatch(value), (name, value)
    assert row["BillingPeriodStart"] < row["BillingPeriodEnd"]
    assert row["ChargePeriodStart"] < row["ChargePeriodEnd"]
    assert [rule for rule in rules() if rule.broken_by(row)] == []


def test_every_mandatory_column_is_there_with_its_type_and_nulls(cast: Cast) -> None:
    known = {column.name: column for column in COLUMNS}
    assert len(mandatory()) == 21
    for name, kind, nullable in mandatory():
        assert (known[name].kind, known[name].nullable) == (kind, nullable)
    for name, kind, nullable, values in specified():
        column = known[name]
        assert (column.kind, column.nullable) == (kind, nullable), name
        assert set(values) == set(column.values) or not values
    ours = {name for name in known if not name.startswith("x_")}
    assert ours == {row[0] for row in mandatory()} | {row[0] for row in specified()}
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


def test_a_credit_note_is_an_invoice_of_corrections(cast: Cast) -> None:
    BillingProfile.objects.create(organisation=cast.organisation, tax_rate=Decimal("0.19"))
    invoice = an_invoice_of(cast, executions=1_234_567)
    note = credit_note_issue(
        invoice_id=invoice.id, parts={1: Decimal("2.50")}, reason="too slow", actor=None, now=timezone.now()
    )
    rows = [row for row in exported(cast) if row["InvoiceId"] == note.number]
    for row in rows:
        check_row(row)
        assert row["ChargeClass"] == "Correction"
    assert {row["ChargeCategory"] for row in rows} == {"Usage", "Tax"}
    net = [Decimal(row["BilledCost"]) for row in rows if row["ChargeCategory"] != "Tax"]
    assert exact_sum(net) == note.net.copy_negate()
    assert exact_sum(Decimal(row["BilledCost"]) for row in rows) == note.total.copy_negate()


def test_hours_of_several_prices_are_several_rows(cast: Cast) -> None:
    def hourly(d: dict[str, Any]) -> None:
        d["classes"]["standard"]["time_of_use"] = True
        d["tariff"]["periods"][1]["factor"] = "0.6"

    market = open_market(change=hourly)
    border = datetime(2026, 11, 24, 20, tzinfo=UTC)  # 21:00 in Berlin
    program = market.program(cast.organisation, cast.engineer, interval=9 * 10**8)  # one a second
    contract = Scene(market, cast, now=border - timedelta(hours=1)).contract((program, 90))
    run(contract, 90, now=border - timedelta(seconds=30))
    span = {"start": border - timedelta(days=1), "end": border + timedelta(days=1)}
    rows = list(csv.DictReader("".join(focus_csv(focus_rows(organisation=cast.organisation, **span))).splitlines()))
    assert [row["x_Executions"] for row in rows] == ["60", "30"]
    assert len({row["SkuPriceId"] for row in rows}) == 2
    for row in rows:
        check_row(row)
    assert exact_sum(Decimal(row["BilledCost"]) for row in rows) == UsageRow.objects.get().amount


def test_parquet_holds_the_same_to_the_last_digit(cast: Cast, as_user: Callable[[User], Client]) -> None:
    an_invoice_of(cast, executions=1_234_567)
    client = as_user(cast.viewer)
    answer = client.get("/api/v1/usage/focus?kind=parquet")
    assert answer["Content-Type"] == "application/vnd.apache.parquet"
    table = parquet.read_table(io.BytesIO(b"".join(answer.streaming_content)))  # type: ignore[attr-defined]
    plain = list(csv.DictReader(b"".join(client.get("/portal/focus.csv")).decode().splitlines()))
    assert table.num_rows == len(plain)
    for column in COLUMNS:
        assert table.schema.field(column.name).nullable == column.nullable
        for mine, theirs in zip(table[column.name].to_pylist(), plain, strict=True):
            if column.kind == "decimal" and mine is not None:
                assert mine == Decimal(theirs[column.name])
            else:
                assert (mine is None) == (theirs[column.name] == "")
    page = as_user(cast.viewer).get("/portal/focus.parquet")
    assert b"".join(page.streaming_content).startswith(b"PAR1")  # type: ignore[attr-defined]


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
