"""A fleet document: its contents, its canonical form and its digest."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from fractions import Fraction
from typing import Any, Final

FORMAT: Final = "takt-fleet/1"
STATES: Final = ("active", "draining", "failed", "spare")
HOST: Final = "host"  # what stands in a processor's place where a pool runs on the machine's own CPU
HOURS_PER_MONTH: Final = 730  # a twelfth of 365 days
WATTS_PER_KILOWATT: Final = 1000
PLACES: Final = 12  # of a decimal in a document


@dataclass(frozen=True)
class Site:
    """A location. The time zone is an IANA name."""

    name: str
    time_zone: str

    def to_json(self) -> dict[str, Any]:
        """Return plain data, structured as in the file."""
        return {"name": self.name, "time_zone": self.time_zone}


@dataclass(frozen=True)
class Cost:
    """The cost of owning a device, effective from `begins`: `capital`, depreciated evenly over `months`, plus
    electricity.

    `watts` is the power draw of one device. `energy_price` is the price of a kilowatt-hour. `pue` is the power usage
    effectiveness of the building. `currency` applies to all amounts.
    """

    begins: datetime
    currency: str
    capital: Decimal
    months: int
    watts: Decimal
    energy_price: Decimal
    pue: Decimal

    @property
    def per_hour(self) -> Fraction:
        """The exact cost of one device-hour. A month has 730 hours."""
        capital = Fraction(self.capital) / (self.months * HOURS_PER_MONTH)
        return capital + Fraction(self.watts) * Fraction(self.energy_price) * Fraction(self.pue) / WATTS_PER_KILOWATT

    @property
    def shown(self) -> Decimal:
        """The cost of one device-hour, rounded half to even to 12 decimal places."""
        with localcontext(prec=60, rounding=ROUND_HALF_EVEN):
            exact = self.per_hour
            return (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(Decimal(1).scaleb(-PLACES))

    def to_json(self) -> dict[str, Any]:
        """Return plain data, structured as in the file."""
        return {
            "from": self.begins.isoformat(),
            "currency": self.currency,
            "capital": _plain(self.capital),
            "months": self.months,
            "watts": _plain(self.watts),
            "energy_price": _plain(self.energy_price),
            "pue": _plain(self.pue),
        }


@dataclass(frozen=True)
class Pool:
    """A pool of identical devices. `processor` is a processor's name or "host". `devices` maps device names to states.

    `power_percent` is the devices' clock as a percentage of the processor's full clock.
    """

    name: str
    site: str
    processor: str
    klass: str
    devices: Mapping[str, str] = field(default_factory=dict)
    costs: tuple[Cost, ...] = ()
    power_percent: int = 100

    @property
    def is_host(self) -> bool:
        """Whether the pool's work runs on the CPU of its hosts."""
        return self.processor == HOST

    def to_json(self) -> dict[str, Any]:
        """Return plain data, structured as in the file. Devices are in numerical order, costs in chronological order."""
        return {
            "name": self.name,
            "site": self.site,
            "processor": self.processor,
            "class": self.klass,
            "power_percent": self.power_percent,
            "devices": [{"name": name, "state": self.devices[name]} for name in sorted(self.devices, key=natural)],
            "cost": [cost.to_json() for cost in self.costs],
        }


@dataclass(frozen=True)
class Document:
    """A whole fleet. `processors` maps the names of custom processors to their files."""

    sites: Mapping[str, Site] = field(default_factory=dict)
    processors: Mapping[str, str] = field(default_factory=dict)
    pools: Mapping[str, Pool] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return plain data in canonical order. `check` converts the data to an equal document."""
        return {
            "format": FORMAT,
            "sites": {slug: self.sites[slug].to_json() for slug in sorted(self.sites)},
            "processors": {name: {"file": self.processors[name]} for name in sorted(self.processors)},
            "pools": {slug: self.pools[slug].to_json() for slug in sorted(self.pools)},
        }

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the canonical JSON. Equal documents have equal digests."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()


def natural(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """Return a sort key that puts `pool-10` after `pool-9`."""
    parts = re.split(r"([0-9]+)", name)
    return [(0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part) for part in parts], name


def _plain(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
