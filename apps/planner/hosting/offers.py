"""Prices beside measurements: what a measured machine costs where a list offers it, and where its owner states it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from apps.planner.hosting.comparison import HOURLY, MONTHLY, OWN, SPOT, Place
from apps.planner.hosting.costs import Owned, rented_hourly, rented_monthly

USED_FOR = timedelta(days=90)  # what was measured or listed is compared for so long
POOLS_SHOWN, OFFERS_SHOWN, PLACES_MAX = 4, 3, 24
_WAYS = {HOURLY: "by the hour", MONTHLY: "whole months", SPOT: "spot, may be taken away"}


@dataclass(frozen=True)
class Offer:
    """A machine as a price list offers it. Prices are of one hour; None where it is not sold so.

    `label`: tells the machine from others in a comparison; `seller`: the list's name; `source`: where in the list the price
    stands; `number`: which of two equal prices is first.
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
    """Whether a price is of a machine with one of these keys: by its own name, or with exactly one accelerator of that name.

    All names are as `name_key` writes them.
    """
    return machine in keys or (accelerators == 1 and bool({accelerator, gpu} & keys))


def rented(place: Place, offers: Iterable[Offer]) -> Iterator[Place]:
    """In each currency the cheapest offers by the hour, the cheapest of them by the month, and the cheapest spot machine.

    `place`: the measured machine, with its items a second.
    """
    known = list(offers)
    for currency in sorted({one.currency for one in known}):
        here = [one for one in known if one.currency == currency]
        hourly = sorted((one for one in here if one.on_demand), key=lambda one: (one.on_demand or 0, one.number))
        spot = sorted((one for one in here if one.spot), key=lambda one: (one.spot or 0, one.number))
        for one in hourly[:OFFERS_SHOWN]:
            yield _rented(place, one, HOURLY, one.on_demand)
        for one in hourly[:1]:
            yield _rented(place, one, MONTHLY, one.on_demand)
        for one in spot[:1]:
            yield _rented(place, one, SPOT, one.spot)


def _rented(place: Place, offer: Offer, kind: str, price: Decimal | None) -> Place:
    assert price is not None
    assert place.rate is not None
    where = " ".join(part for part in (offer.region, offer.zone) if part)
    within = f" in {where}" if where else ""
    expires = offer.expires_at if place.expires_at is None else min(place.expires_at, offer.expires_at)
    return replace(
        place,
        key=f"{place.model} on {offer.machine}{within}, {offer.seller}, {_WAYS[kind]}",
        kind=kind,
        title=offer.machine,
        machine=f"{place.key} {offer.label}",
        currency=offer.currency,
        cost=(rented_monthly if kind == MONTHLY else rented_hourly)(Fraction(price), place.rate),
        note=f"{_WAYS[kind]}{within}; {place.note}",
        expires_at=expires,
        source=offer.source,
    )


def owned(place: Place, *, machine: str, name: str, currency: str, costs: Owned, source: str) -> Place:
    """The measured machine as one that its owner has, at what it costs him."""
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
