"""Real exports held to the rules of FOCUS 1.2, one by one, and every rule to rows that break it."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal

import pytest

from apps.pricing.rating import exact_sum
from tests.cast import Cast
from tests.invoicing.focus_rules import Rule, holds, rules
from tests.invoicing.focus_scene import everything, exported

# What no export of ours has: purchases, other people's invoices.
NEVER = {"BilledCost-C-005", "ChargeFrequency-C-004", "EffectiveCost-C-005"}


@pytest.mark.django_db
def test_a_customer_with_everything_exports_rows_that_keep_every_rule(cast: Cast) -> None:
    invoices, note = everything(cast)
    rows = exported(cast)
    assert {row["ChargeCategory"] for row in rows} == {"Usage", "Credit", "Adjustment", "Tax"}
    assert {row["CommitmentDiscountStatus"] for row in rows} == {"", "Used", "Unused"}
    assert {row["CapacityReservationStatus"] for row in rows} == {"", "Used", "Unused"}
    assert [row["x_Executions"] for row in rows if row["InvoiceId"] == ""] == ["1000"]
    used: set[str] = set()
    for row in rows:
        for rule in rules():
            assert not rule.broken_by(row), f"{rule.name}: {rule.must}, {row['ChargeDescription']}"
            used |= {rule.name} if rule.applies(row) else set()
    assert {rule.name for rule in rules()} - used == NEVER
    _rules_bite(rows)
    _sets_hold(rows)
    for invoice in invoices:
        _sums_hold([row for row in rows if row["InvoiceId"] == invoice.number], invoice.payable, invoice.due)
    _sums_hold([row for row in rows if row["InvoiceId"] == note.number], -note.net, -note.total)


def _sets_hold(rows: list[dict[str, str]]) -> None:
    """Rules about several rows: parents are one, details belong to a price, keys are ours."""
    parents: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        for child, parent in (
            ("SkuPriceId", "SkuId"),
            ("SkuPriceId", "SkuPriceDetails"),
            ("SkuId", "SkuMeter"),
            ("ServiceName", "ServiceCategory"),
            ("ServiceName", "ServiceSubcategory"),
            ("RegionId", "RegionName"),
            ("SkuPriceId", "PricingUnit"),
            ("CommitmentDiscountId", "CommitmentDiscountType"),
        ):
            if row[child]:
                parents[f"{child} {row[child]} {parent}"].add(row[parent])
        for key, value in json.loads(row["SkuPriceDetails"] or "{}").items():
            assert (key[:2], type(value)) == ("x_", str), "SkuPriceDetails-C-017"
    assert [key for key, found in parents.items() if len(found) != 1] == []


def _sums_hold(rows: list[dict[str, str]], payable: Decimal, due: Decimal) -> None:
    """BilledCost-C-007; and a tax on list costs is what it is on the costs, and on what was taken off them."""
    before_tax = [row for row in rows if row["ChargeCategory"] != "Tax"]
    assert exact_sum(Decimal(row["BilledCost"]) for row in before_tax) == payable
    assert exact_sum(Decimal(row["BilledCost"]) for row in rows) == due
    (tax,) = [row for row in rows if row["ChargeCategory"] == "Tax"]
    listed = exact_sum(Decimal(row["ListCost"]) for row in before_tax)
    assert abs(Decimal(tax["ListCost"]) - listed * Decimal("0.19")) <= Decimal("0.01")


def _rules_bite(rows: list[dict[str, str]]) -> None:
    """A rule finds the row in which the one cell that it is about was changed."""
    for rule in rules():
        if rule.name not in NEVER:
            row = next(row for row in rows if rule.applies(row))
            assert holds(rule.must, row)
            assert not holds(rule.must, _breaking(rule, row)), f"{rule.name} passes everything"


def _breaking(rule: Rule, row: dict[str, str]) -> dict[str, str]:
    """The row with the one cell changed that the rule is about."""
    column = rule.must.split()[0]
    wrong = {"is null": "x", "is set": "", "is a unit": "Tera-operations", "equals": "1.5", ">= 0": "-1"}
    for words, value in wrong.items():
        if words in rule.must:
            return {**row, column: value}
    if "differs from" in rule.must:
        return {**row, column: row[rule.must.split()[-1]]}
    if "!=" in rule.must:
        return {**row, column: rule.must.split("!= ")[1]}
    return {**row, column: "7" if "*" in rule.must else "nothing of the kind"}
