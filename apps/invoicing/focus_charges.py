"""Single charges as rows of FOCUS 1.2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from apps.accounts.models import Organisation
from apps.invoicing.focus_columns import Row
from apps.ledger.models import UsageRow
from apps.pricing.rating import Rating, decimal_text, multiply
from apps.pricing.rating.decimals import CONTEXT, TERA
from apps.registry.models import Project
from apps.sales.models import Commitment, Contract

# Units in the form of the specification: "<whole number> <units in the plural>". A hyphen would join two units.
CONSUMED_UNIT, PRICING_UNIT = "Operations", "1000000000000 Operations"
CREDITS = frozenset({"credit", "free-tier", "guarantee"})
COSTS = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost")


@dataclass(frozen=True)
class Place:
    """The region in which a contract's work runs."""

    region: str
    region_name: str


@dataclass(frozen=True)
class Names:
    """The objects to which rows refer: projects, commitments, and the region and commitment of each contract."""

    organisation: Organisation
    projects: dict[str, str]
    places: dict[str, Place]
    promised: dict[str, str]
    commitments: dict[str, Commitment]

    def commitment_of(self, contract_id: str) -> Commitment | None:
        """Return the commitment towards which a contract's usage counts; None if there is none."""
        return self.commitments.get(self.promised.get(contract_id, ""))


@dataclass(frozen=True)
class Part:
    """The executions in a usage row that have the same price."""

    name: str
    executions: int
    operations: Decimal
    listed: Decimal
    amount: Decimal

    @property
    def quantity(self) -> Decimal:
        """The quantity in the units of the price list."""
        return CONTEXT.scaleb(self.operations, -TERA)


def usage_rows(usage: UsageRow, frame: Row, names: Names) -> Iterator[Row]:
    """Yield one row for each price of the usage. A lease that ran in hours with different prices has several rows."""
    rating = Rating.from_json(usage.rating)
    whose = frame | {
        "ChargePeriodStart": usage.occurred_from,
        "ChargePeriodEnd": usage.occurred_to,
        "x_UsageDigest": usage.payload_digest,
    }
    about = about_row(
        names,
        contract=str(usage.contract_id),
        digest=usage.program_digest,
        model=usage.model_name,
        project=str(usage.project_id) if usage.project_id else "",
        unused=rating.unused,
    )
    promise = names.commitment_of(str(usage.contract_id))
    if rating.charged is not None:
        description = f"{usage.model_name}: its lines came to {decimal_text(rating.charged)} {usage.currency}"
        sold = _sum_of_money(usage, rating, ("contract/minimum", "Contract minimum"), description)
        yield whose | about | sold | promised_row(promise, "Used") | _spent(promise, rating.amount)
        return
    if rating.late:
        description = (
            f"Late cancellation, class {rating.terms.klass}: {rating.executions} executions reserved but not used"
        )
        sold = _sum_of_money(usage, rating, (f"contract/late/{rating.terms.klass}", "Late cancellation"), description)
        yield whose | about | sold | promised_row(promise, "Used") | _spent(promise, rating.amount)
        return
    for part in _parts(rating):
        counted = _spent(promise, part.amount)
        yield whose | about | _priced(usage, rating, part) | promised_row(promise, "Used") | counted


def _spent(promise: Commitment | None, amount: Decimal) -> Row:
    if promise is None:
        return {}
    return {"CommitmentDiscountQuantity": amount, "CommitmentDiscountUnit": promise.currency}


def _sum_of_money(usage: UsageRow, rating: Rating, sold: tuple[str, str], description: str) -> Row:
    # `sold` is (SKU, meter). The quantity is the amount in units of the currency, at a price of 1.
    (sku, meter), amount = sold, rating.amount
    details = {"x_Class": rating.terms.klass, "x_PriceBook": str(rating.book_version)}
    return {
        **dict.fromkeys(COSTS, amount),
        "ChargeCategory": "Usage",
        "ChargeDescription": description,
        "ChargeFrequency": "One-Time",
        "ConsumedQuantity": amount,
        "ConsumedUnit": usage.currency,
        "ContractedUnitPrice": Decimal(1),
        "ListUnitPrice": Decimal(1),
        "PricingCategory": "Standard",
        "PricingQuantity": amount,
        "PricingUnit": usage.currency,
        "SkuId": sku,
        "SkuMeter": meter,
        "SkuPriceDetails": details,
        "SkuPriceId": f"{rating.book_digest[:16]}/{sku}",
    }


def about_row(names: Names, *, contract: str, digest: str, model: str, project: str, unused: bool) -> Row:
    """Return the columns that identify the program, region and project of a charge.

    For quotas and unused volume, the columns name the contract instead of the program.
    """
    place = names.places.get(contract)
    return {
        "CapacityReservationId": contract,
        "CapacityReservationStatus": "Unused" if unused else "Used",
        "RegionId": place and place.region,
        "RegionName": place and place.region_name,
        "ResourceId": digest or contract,
        "ResourceName": model or None,
        "ResourceType": "Compiled program" if digest else "Contract",
        "SubAccountId": project or None,
        "SubAccountName": names.projects.get(project, project) if project else None,
        "SubAccountType": "Project" if project else None,
    }


def promised_row(commitment: Commitment | None, status: str) -> Row:
    """Return the columns that name a commitment; an empty row if there is none."""
    if commitment is None:
        return {}
    return {
        "CommitmentDiscountCategory": "Spend",
        "CommitmentDiscountId": str(commitment.id),
        "CommitmentDiscountName": f"{commitment.minimum.normalize():f} {commitment.currency} a month, {commitment.kind}",
        "CommitmentDiscountStatus": status,
        "CommitmentDiscountType": "Minimum spend",
        "PricingCategory": "Committed",
    }


def plain_row(frame: Row, category: str, amount: Decimal, description: str) -> Row:
    """Return the row of a charge that has no quantity and no price."""
    costs = dict.fromkeys(COSTS, amount)
    return frame | costs | {"ChargeCategory": category, "ChargeFrequency": "One-Time", "ChargeDescription": description}


def shortfall_row(frame: Row, adjustment: dict[str, Any], amount: Decimal, names: Names) -> Row:
    """Return the row of a commitment shortfall, in units of the currency at a price of 1."""
    basis, currency = adjustment["basis"], frame["BillingCurrency"]
    commitment = names.commitments[basis["commitment"]]
    sku = f"commitment/{commitment.kind}"
    description = f"{adjustment['title']}: {basis['used']} of {basis['minimum']} {currency} were used"
    return (
        plain_row(frame, "Usage", amount, description)
        | promised_row(commitment, "Unused")
        | {
            "ChargeFrequency": "Recurring",
            "ChargePeriodStart": datetime.fromisoformat(basis["start"]),
            "ChargePeriodEnd": datetime.fromisoformat(basis["end"]),
            "CommitmentDiscountQuantity": amount,
            "CommitmentDiscountUnit": currency,
            "ContractedUnitPrice": Decimal(1),
            "ListUnitPrice": Decimal(1),
            "PricingQuantity": amount,
            "PricingUnit": currency,
            "ResourceId": str(commitment.id),
            "ResourceName": f"Commitment, {commitment.kind}",
            "ResourceType": "Commitment",
            "SkuId": sku,
            "SkuMeter": "Committed spend",
            "SkuPriceDetails": {"x_Commitment": commitment.kind},
            "SkuPriceId": f"{sku}/{currency}",
        }
    )


def category_of(kind: str) -> str:
    """Return the charge category of an invoice line that is not usage."""
    return "Credit" if kind in CREDITS else "Usage" if kind == "shortfall" else "Adjustment"


def names_of(organisation: Organisation) -> Names:
    """Load the names of the objects to which an organisation's rows refer."""
    contracts = Contract.objects.filter(organisation=organisation).select_related("pool__site")
    places: dict[str, Place] = {}
    promised: dict[str, str] = {}
    only = contracts.only("id", "pool__site__slug", "pool__site__name", "commitment_id")
    for contract in only.iterator(chunk_size=500):
        places[str(contract.id)] = Place(contract.pool.site.slug, contract.pool.site.name)
        if contract.commitment_id is not None:
            promised[str(contract.id)] = str(contract.commitment_id)
    projects = Project.objects.filter(organisation=organisation).values_list("pk", "name")
    commitments = Commitment.objects.filter(organisation=organisation)
    return Names(
        organisation,
        {str(pk): name for pk, name in projects},
        places,
        promised,
        {str(one.id): one for one in commitments},
    )


def _parts(rating: Rating) -> Sequence[Part]:
    listed = rating.step("list")
    if rating.periods is None:
        return [Part("", rating.executions, listed.input, listed.result, rating.amount)]
    once = CONTEXT.divide(listed.input, Decimal(rating.executions))
    return [
        Part(
            name, count, multiply(once, count), rating.step(f"list:{name}").result, rating.step(f"amount:{name}").result
        )
        for name, count in sorted(rating.periods.items())
    ]


def _priced(usage: UsageRow, rating: Rating, part: Part) -> Row:
    # Every step of a price is a factor, so unit prices are finite decimals.
    terms = rating.terms
    sku = f"{terms.processor_class}/{terms.precision}"
    details = {"x_Class": terms.klass, "x_Commitment": terms.commitment, "x_PriceBook": str(rating.book_version)}
    details |= {"x_Served": terms.served} if terms.served else {}
    details |= {"x_Hours": part.name} if part.name else {}
    details |= {"x_Reserved": "not used"} if rating.unused else {}
    price = "/".join([rating.book_digest[:16], sku, *(value for key, value in details.items() if key != "x_PriceBook")])
    description = ", reserved and not used" if rating.unused else f", hours {part.name}" if part.name else ""
    return {
        "BilledCost": part.amount,
        "ChargeCategory": "Usage",
        "ChargeDescription": f"{part.executions} executions of {usage.model_name} on {sku}, class {terms.klass}{description}",
        "ChargeFrequency": "Usage-Based",
        "ConsumedQuantity": part.operations,
        "ConsumedUnit": CONSUMED_UNIT,
        "ContractedCost": part.amount,
        "ContractedUnitPrice": CONTEXT.divide(part.amount, part.quantity),
        "EffectiveCost": part.amount,
        "ListCost": part.listed,
        "ListUnitPrice": rating.step("list").factor,
        "PricingCategory": "Standard",
        "PricingQuantity": part.quantity,
        "PricingUnit": PRICING_UNIT,
        "SkuId": sku,
        "SkuMeter": "Billed operations",
        "SkuPriceDetails": details,
        "SkuPriceId": price,
        "x_Executions": Decimal(part.executions),
    }
