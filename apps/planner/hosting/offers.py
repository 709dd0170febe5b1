"""Match measured machines to the prices of rented and owned machines. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from apps.planner.hosting.comparison import HOURLY, MONTHLY, OWN, SPOT, HostingOption
from apps.planner.hosting.costs import Owned, rented_hourly, rented_monthly

USED_FOR = timedelta(days=90)  # how long a measurement or a price list is valid by default
POOLS_SHOWN, OFFERS_SHOWN, OPTIONS_MAX = 4, 3, 24
_TERMS = {HOURLY: "by the hour", MONTHLY: "whole months", SPOT: "spot, can be withdrawn"}


@dataclass(frozen=True)
class Offer:
    """A machine in a price list, with hourly prices.

    `on_demand` or `spot` is None if not offered. `seller` is the name of the list. Offers with equal prices are sorted
    by `number`.
    """

    label: str
    machine: str
    region: str
    zone: str
    currency: str
    on_demand: Decimal | None
    spot: Decimal | None
    seller: str
    source: str
    number: int
    expires_at: datetime


def is_offered(keys: AbstractSet[str], *, machine: str, accelerators: Decimal, accelerator: str, gpu: str) -> bool:
    """Return whether `keys` contains the key of the machine or of its only accelerator.

    All names must be keys that `name_key` returned.
    """
    return machine in keys or (accelerators == 1 and bool({accelerator, gpu} & keys))


def rented(place: HostingOption, offers: Iterable[Offer]) -> Iterator[HostingOption]:
    """Yield the cheapest hourly, monthly and spot offers for a measured machine in each currency."""
    known = list(offers)
    for currency in sorted({one.currency for one in known}):
        here = [one for one in known if one.currency == currency]
        hourly = _cheapest((one.on_demand, one) for one in here)
        spot = _cheapest((one.spot, one) for one in here)
        yield from (_rented(place, one, HOURLY, price) for price, one in hourly[:OFFERS_SHOWN])
        yield from (_rented(place, one, MONTHLY, price) for price, one in hourly[:1])
        yield from (_rented(place, one, SPOT, price) for price, one in spot[:1])


def _cheapest(priced: Iterable[tuple[Decimal | None, Offer]]) -> list[tuple[Decimal, Offer]]:
    known = [(price, one) for price, one in priced if price]
    return sorted(known, key=lambda pair: (pair[0], pair[1].number))


def _rented(place: HostingOption, offer: Offer, kind: str, price: Decimal) -> HostingOption:
    assert place.rate is not None
    where = " ".join(part for part in (offer.region, offer.zone) if part)
    within = f" in {where}" if where else ""
    expires = offer.expires_at if place.expires_at is None else min(place.expires_at, offer.expires_at)
    return replace(
        place,
        key=f"{place.model} on {offer.machine}{within}, {offer.seller}, {_TERMS[kind]}",
        kind=kind,
        title=offer.machine,
        machine=f"{place.key} {offer.label}",
        currency=offer.currency,
        cost=(rented_monthly if kind == MONTHLY else rented_hourly)(Fraction(price), place.rate),
        note=f"{_TERMS[kind]}{within}; {place.note}",
        expires_at=expires,
        source=offer.source,
    )


def owned(place: HostingOption, *, machine: str, name: str, currency: str, costs: Owned, source: str) -> HostingOption:
    """Return a measured machine with the cost of owning the machine."""
    assert place.rate is not None
    return replace(
        place,
        key=f"{place.model} on {name}, your own",
        kind=OWN,
        title=name,
        machine=f"{place.key} {machine}",
        currency=currency,
        cost=costs.cost(place.rate),
        note=f"your own; {place.note}",
        source=source,
    )
