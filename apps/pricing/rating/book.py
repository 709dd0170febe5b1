"""A price book: the price of operations by processor class, precision and class of service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

from apps.pricing.rating.decimals import decimal_text, digest_of
from apps.pricing.rating.errors import NotPriced
from apps.pricing.rating.tariff import Tariff

FORMAT = "takt-price-book/1"
NO_COMMITMENT = "none"


@dataclass(frozen=True)
class Currency:
    """An ISO 4217 code and the number of decimal places of the currency's minor unit (2 for cents)."""

    code: str
    exponent: int

    def to_json(self) -> dict[str, Any]:
        return {"code": self.code, "exponent": self.exponent}


@dataclass(frozen=True)
class LateCancellation:
    """The cost of a late release of reserved time.

    Unused work costs `share` of its price if the reserved time starts less than `notice_minutes` after the beginning of
    the hour of the release.
    """

    notice_minutes: int
    share: Decimal

    def to_json(self) -> dict[str, Any]:
        return {"notice_minutes": self.notice_minutes, "share": decimal_text(self.share)}


@dataclass(frozen=True)
class PriceClass:
    """A class of service: its price and its promises.

    `surcharge` (at least 1) always applies. Of several discounts, only the largest applies. `unused` is the share of
    the price charged for unused reserved work. `start_within_minutes` and `finish_within_minutes` are counted from
    acceptance; None means no promise. If `time_of_use` is set, the price follows the tariff period. A class that is not
    `offered` can't be bought.
    """

    name: str
    title: str
    promise: str
    surcharge: Decimal
    discount: Decimal
    unused: Decimal
    off_peak_only: bool
    start_within_minutes: int | None
    finish_within_minutes: int | None
    offered: bool
    time_of_use: bool = False
    late: LateCancellation | None = None

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "title": self.title,
            "promise": self.promise,
            "surcharge": decimal_text(self.surcharge),
            "discount": decimal_text(self.discount),
            "unused": decimal_text(self.unused),
            "off_peak_only": self.off_peak_only,
            "start_within_minutes": self.start_within_minutes,
            "finish_within_minutes": self.finish_within_minutes,
            "offered": self.offered,
        }
        if self.time_of_use:
            document["time_of_use"] = True
        if self.late is not None:
            document["late_cancellation"] = self.late.to_json()
        return document


@dataclass(frozen=True)
class PriceBookDocument:
    """A parsed and checked price book. Prices are per tera-operation (10^12 operations).

    `minimum_charge` is the minimum for a month with usage, and `contract_minimum` the minimum price of a contract.
    `commitment_days` is the term of each commitment. `missed_guarantee` is the share of the price that is credited for
    missed guaranteed work.
    """

    version: int
    currency: Currency
    notice_days: int
    quote_validity_minutes: int
    prices: dict[str, dict[str, Decimal]]
    minimum_operations_per_cycle: dict[str, int | dict[str, int]]
    floor: Decimal
    classes: dict[str, PriceClass]
    commitments: dict[str, Decimal]
    tariff: Tariff
    minimum_charge: Decimal = Decimal(0)
    free_tera_operations: Decimal = Decimal(0)
    commitment_days: Mapping[str, int] = field(default_factory=dict)
    missed_guarantee: Decimal = Decimal(1)
    contract_minimum: Decimal = Decimal(0)

    def unit_price(self, processor_class: str, precision: str) -> Decimal:
        """Return the price of one tera-operation. Raises NotPriced if the book has no such price."""
        by_precision = self.prices.get(processor_class)
        if by_precision is None:
            known = ", ".join(sorted(self.prices))
            raise NotPriced(f"price book {self.version} has no processor class {processor_class!r} (it has {known})")
        if precision not in by_precision:
            known = ", ".join(sorted(by_precision))
            raise NotPriced(
                f"price book {self.version} has no price for {precision!r} on {processor_class!r} (it has {known})"
            )
        return by_precision[precision]

    def minimum(self, processor_class: str, precision: str) -> int:
        """Return the minimum number of operations billed per cycle. Raises NotPriced if the book has no such minimum."""
        found = self.minimum_operations_per_cycle.get(processor_class)
        if isinstance(found, dict):
            found = found.get(precision)
        if found is None:
            raise NotPriced(
                f"price book {self.version} has no minimum per cycle for {precision!r} on {processor_class!r}"
            )
        return found

    def price_class(self, name: str) -> PriceClass:
        """Return the class of service with this name. Raises NotPriced if the book has no such class."""
        if name not in self.classes:
            raise NotPriced(
                f"price book {self.version} has no class {name!r} (it has {', '.join(sorted(self.classes))})"
            )
        return self.classes[name]

    def commitment(self, name: str) -> Decimal:
        """Return the factor of a commitment. Raises NotPriced if the book has no such commitment."""
        if name not in self.commitments:
            raise NotPriced(
                f"price book {self.version} has no commitment {name!r} (it has {', '.join(sorted(self.commitments))})"
            )
        return self.commitments[name]

    def to_json(self) -> dict[str, Any]:
        """Return the whole document with decimals as text."""
        document: dict[str, Any] = {
            "format": FORMAT,
            "version": self.version,
            "currency": self.currency.to_json(),
            "notice_days": self.notice_days,
            "quote_validity_minutes": self.quote_validity_minutes,
            "prices": {
                processor_class: {precision: decimal_text(price) for precision, price in by_precision.items()}
                for processor_class, by_precision in self.prices.items()
            },
            "minimum_operations_per_cycle": {
                name: dict(least) if isinstance(least, dict) else least
                for name, least in self.minimum_operations_per_cycle.items()
            },
            "floor": decimal_text(self.floor),
            "classes": {name: item.to_json() for name, item in self.classes.items()},
            "commitments": {name: decimal_text(factor) for name, factor in self.commitments.items()},
            "tariff": self.tariff.to_json(),
        }
        if self.minimum_charge:
            document["minimum_charge"] = decimal_text(self.minimum_charge)
        if self.free_tera_operations:
            document["free_tera_operations"] = decimal_text(self.free_tera_operations)
        if self.commitment_days:
            document["commitment_days"] = dict(self.commitment_days)
        if self.missed_guarantee != 1:
            document["missed_guarantee"] = decimal_text(self.missed_guarantee)
        if self.contract_minimum:
            document["contract_minimum"] = decimal_text(self.contract_minimum)
        return document

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the canonical document."""
        return digest_of(self.to_json())
