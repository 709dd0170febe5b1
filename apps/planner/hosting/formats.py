"""Read one row of a price list in each supported format."""

from __future__ import annotations

import ast
import json
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from apps.planner.hosting.cells import Cells, Format, Layout, Price, Refused, currency_of, hour_of
from apps.planner.hosting.faults import shown

NONE = Decimal(0)


def own_row(cells: Cells, line: int) -> tuple[str, Price]:
    """Read a row of a plain price list."""
    currency = currency_of(cells.text("currency", needed=True), "currency")
    hour_of(cells.text("unit", needed=True), "unit")
    price = Price(
        line=line,
        machine=cells.text("machine", needed=True),
        region=cells.text("region"),
        zone=cells.text("zone"),
        accelerator=cells.text("accelerator"),
        accelerators=_accelerators(cells, "accelerator", "accelerators"),
        gpu="",
        on_demand=cells.price("price"),
        spot=cells.price("spot_price"),
    )
    return currency, _sold(price, "price")


def skypilot_row(cells: Cells, line: int) -> tuple[str, Price] | None:
    """Read a row of a SkyPilot catalogue (schema v8), with prices in USD per machine-hour.

    Return None for a row without a machine or a price.
    """
    if not cells.text("InstanceType") or not (cells.text("Price") or cells.text("SpotPrice")):
        return None
    price = Price(
        line=line,
        machine=cells.text("InstanceType"),
        region=cells.text("Region"),
        zone=cells.text("AvailabilityZone"),
        accelerator=cells.text("AcceleratorName"),
        accelerators=_accelerators(cells, "AcceleratorName", "AcceleratorCount"),
        gpu=_gpu_name(cells.long("GpuInfo")),
        on_demand=cells.price("Price"),
        spot=cells.price("SpotPrice"),
    )
    return "USD", price


def _gpu_name(text: str) -> str:
    if not text or not text.startswith("{"):
        return ""  # a few catalogues repeat the accelerator's name there
    try:
        parsed: Any = json.loads(text)
    except (ValueError, RecursionError):
        try:
            parsed = ast.literal_eval(text)  # literals only: no code is run
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            raise Refused(
                "it is neither JSON nor a Python literal; copy it from the catalogue again.", "GpuInfo"
            ) from None
    try:
        name = parsed["Gpus"][0]["Name"]
    except (KeyError, IndexError, TypeError):
        raise Refused(
            f"it names no GPU under Gpus; copy it from the catalogue again, not {shown(text)}.", "GpuInfo"
        ) from None
    return name[:160] if isinstance(name, str) and name.isprintable() else ""


def focus_row(cells: Cells, line: int) -> tuple[str, Price] | None:
    """Read a row of a FOCUS 1.2 file. Return None unless the row is a usage charge for compute."""
    if (
        cells.text("ChargeCategory") != "Usage"
        or cells.text("ServiceCategory") != "Compute"
        or cells.text("ChargeClass")
    ):
        return None
    category = cells.text("PricingCategory")
    if category not in ("Standard", "Dynamic"):
        return None  # usage under a commitment has no price for additional machines
    currency = currency_of(cells.text("BillingCurrency", needed=True), "BillingCurrency")
    hour_of(cells.text("PricingUnit", needed=True), "PricingUnit")
    amount = cells.price("ContractedUnitPrice") or cells.price("ListUnitPrice")
    if amount is None:
        raise Refused("neither ContractedUnitPrice nor ListUnitPrice is given; remove the row.", "ListUnitPrice")
    machine = _instance_type(cells.long("SkuPriceDetails")) or cells.text("SkuId", needed=True)
    price = Price(
        line=line,
        machine=machine,
        region=cells.text("RegionId"),
        zone=cells.text("AvailabilityZone"),
        accelerator="",
        accelerators=NONE,
        gpu="",
        on_demand=amount if category == "Standard" else None,
        spot=amount if category == "Dynamic" else None,
    )
    return currency, price


def _instance_type(text: str) -> str:
    if not text:
        return ""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("it is not JSON; export the file again.", "SkuPriceDetails") from None
    name = parsed.get("InstanceType") if isinstance(parsed, dict) else None
    return name.strip()[:160] if isinstance(name, str) and name.isprintable() else ""


def _charged_at(cells: Cells) -> str:
    text = cells.text("ChargePeriodEnd", needed=True)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Refused(f"give an instant such as 2026-11-30T22:00:00Z, not {shown(text)}.", "ChargePeriodEnd") from None
    if found.tzinfo is None:
        raise Refused(f"{shown(text)} has no zone; write an instant such as 2026-11-30T22:00:00Z.", "ChargePeriodEnd")
    return f"{(found - _EPOCH).total_seconds():020.6f}"


_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def _accelerators(cells: Cells, name: str, column: str) -> Decimal:
    count = cells.number(column)
    if not cells.text(name):
        return NONE
    return Decimal(1) if count is None else count


def _sold(price: Price, column: str) -> Price:
    if price.on_demand is None and price.spot is None:
        raise Refused("neither price nor spot_price is given; remove the row.", column)
    return price


LAYOUTS: Final = {
    Format.OWN: Layout(("machine", "price", "currency", "unit", "region"), own_row),
    Format.SKYPILOT: Layout(
        ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "SpotPrice", "Region"), skypilot_row
    ),
    Format.FOCUS: Layout(
        (
            "BillingCurrency",
            "ChargeCategory",
            "ChargeClass",
            "ChargePeriodEnd",
            "ContractedUnitPrice",
            "ListUnitPrice",
            "PricingCategory",
            "PricingUnit",
            "RegionId",
            "ServiceCategory",
            "SkuId",
        ),
        focus_row,
        _charged_at,
    ),
}
SAMPLE = (
    "machine,price,currency,unit,region,accelerator,accelerators,spot_price\n"
    "gpu-l4.small,0.71,EUR,hour,eu-central,L4,1,0.24\n"
    "cpu-8,0.29,EUR,hour,eu-central,,,\n"
)
