"""The FOCUS 1.2 columns of the cost export: all mandatory and recommended columns, and each conditional column whose
condition is met.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Column:
    """A column: its name, type, nullability and allowed values."""

    name: str
    kind: str
    nullable: bool = True
    values: tuple[str, ...] = ()


# In the alphabetical order of the specification, which allows own columns with the prefix `x_`.
COLUMNS = (
    Column("BilledCost", "decimal", nullable=False),
    Column("BillingAccountId", "string", nullable=False),
    Column("BillingAccountName", "string"),
    Column("BillingCurrency", "string", nullable=False),
    Column("BillingPeriodEnd", "datetime", nullable=False),
    Column("BillingPeriodStart", "datetime", nullable=False),
    Column("CapacityReservationId", "string"),
    Column("CapacityReservationStatus", "string", values=("Used", "Unused")),
    Column("ChargeCategory", "string", nullable=False, values=("Usage", "Purchase", "Tax", "Credit", "Adjustment")),
    Column("ChargeClass", "string", values=("Correction",)),
    Column("ChargeDescription", "string"),
    Column("ChargeFrequency", "string", nullable=False, values=("One-Time", "Recurring", "Usage-Based")),
    Column("ChargePeriodEnd", "datetime", nullable=False),
    Column("ChargePeriodStart", "datetime", nullable=False),
    Column("CommitmentDiscountCategory", "string", values=("Spend", "Usage")),
    Column("CommitmentDiscountId", "string"),
    Column("CommitmentDiscountName", "string"),
    Column("CommitmentDiscountQuantity", "decimal"),
    Column("CommitmentDiscountStatus", "string", values=("Used", "Unused")),
    Column("CommitmentDiscountType", "string"),
    Column("CommitmentDiscountUnit", "string"),
    Column("ConsumedQuantity", "decimal"),
    Column("ConsumedUnit", "string"),
    Column("ContractedCost", "decimal", nullable=False),
    Column("ContractedUnitPrice", "decimal"),
    Column("EffectiveCost", "decimal", nullable=False),
    Column("InvoiceId", "string"),
    Column("InvoiceIssuerName", "string", nullable=False),
    Column("ListCost", "decimal", nullable=False),
    Column("ListUnitPrice", "decimal"),
    Column("PricingCategory", "string", values=("Standard", "Dynamic", "Committed", "Other")),
    Column("PricingQuantity", "decimal"),
    Column("PricingUnit", "string"),
    Column("ProviderName", "string", nullable=False),
    Column("PublisherName", "string", nullable=False),
    Column("RegionId", "string"),
    Column("RegionName", "string"),
    Column("ResourceId", "string"),
    Column("ResourceName", "string"),
    Column("ResourceType", "string"),
    Column("ServiceCategory", "string", nullable=False, values=("AI and Machine Learning",)),
    Column("ServiceName", "string", nullable=False),
    Column("ServiceSubcategory", "string", nullable=False, values=("Machine Learning",)),
    Column("SkuId", "string"),
    Column("SkuMeter", "string"),
    Column("SkuPriceDetails", "json"),
    Column("SkuPriceId", "string"),
    Column("SubAccountId", "string"),
    Column("SubAccountName", "string"),
    Column("SubAccountType", "string"),
    Column("x_Executions", "decimal"),
    Column("x_UsageDigest", "string"),
)
