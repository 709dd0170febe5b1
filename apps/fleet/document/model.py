"""What a fleet document holds, its canonical form and its digest."""

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
    """A place; its time zone is an IANA name."""

    name: str
    time_zone: str

    def to_json(self) -> dict[str, Any]:
        """Plain data, as a file holds it."""
        return {"name": self.name, "time_zone": self.time_zone}


@dataclass(frozen=True)
class Cost:
    """What owning a device costs from `begins` on: `capital` in `currency` spread evenly over `months`, and power.

    `watts` are those of one device, `energy_price` is per kilowatt-hour, `pue` what the building adds to every watt.
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
        """The cost of one device-hour, exactly; a month has 730 hours."""
        capital = Fraction(self.capital) / (self.months * HOURS_PER_MONTH)
        return capital + Fraction(self.watts) * Fraction(self.energy_price) * Fraction(self.pue) / WATTS_PER_KILOWATT

    @property
    def shown(self) -> Decimal:
        """The same half-even to 12 places, since its exact value may have no last one."""
        with localcontext(prec=60, rounding=ROUND_HALF_EVEN):
            exact = self.per_hour
            return (Decimal(exact.numerator) / Decimal(exact.denominator)).quantize(Decimal(1).scaleb(-PLACES))

    def to_json(self) -> dict[str, Any]:
        """Plain data, as a file holds it."""
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
    """Identical devices: `processor` is a processor's name or "host", `devices` gives each device's state by name.

    `power_percent` is the share of the processor's own clock at which they run.
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
        """It runs on the machine's own CPU."""
        return self.processor == HOST

    def to_json(self) -> dict[str, Any]:
        """Plain data, as a file holds it: devices in the order of their numbers, costs in that of time."""
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
    """A whole fleet. `processors` are those that do not ship with the compiler: their files, by name."""

    sites: Mapping[str, Site] = field(default_factory=dict)
    processors: Mapping[str, str] = field(default_factory=dict)
    pools: Mapping[str, Pool] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data, in canonical order; `check` gives back an equal document."""
        return {
            "format": FORMAT,
            "sites": {slug: self.sites[slug].to_json() for slug in sorted(self.sites)},
            "processors": {name: {"file": self.processors[name]} for name in sorted(self.processors)},
            "pools": {slug: self.pools[slug].to_json() for slug in sorted(self.pools)},
        }

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON: equal documents have equal digests, however their files are written."""
        text = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(text.encode()).hexdigest()


def natural(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """A sort key in which `pool-10` follows `pool-9`."""
    parts = re.split(r"([0-9]+)", name)
    return [(0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part) for part in parts], name


def _plain(value: Decimal) -> str:
    """A decimal without exponent and without zeros at its end."""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
