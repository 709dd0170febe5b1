"""Machines outside the platform, read from measurements, price lists and the task.

A measurement or price list is used for 90 days. Amounts are not converted between currencies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps import figures
from apps.cli.planning.programs import Model
from apps.cli.planning.reading import FileFault, Table, file_read
from apps.cli.planning.task import Stated
from apps.planner.hosting.cells import Format, Price
from apps.planner.hosting.comparison import POOL, UNPRICED, Group, HostingOption, groups_of, row_chosen
from apps.planner.hosting.costs import Cost, Owned
from apps.planner.hosting.faults import Unreadable
from apps.planner.hosting.measurement import Measurement, gpu_names, measurement_read
from apps.planner.hosting.names import name_key
from apps.planner.hosting.offers import OPTIONS_MAX, POOLS_SHOWN, USED_FOR, Offer, is_offered, owned, rented
from apps.planner.hosting.pricelist import PriceList, pricelist_read
from apps.planner.solver import Solution

OWN_KEYS = ("name", "currency", "capital", "months", "watts", "energy_price", "pue", "utilisation")


@dataclass(frozen=True)
class Measured:
    """A measurement and the names of the measured machine. `pool` is the pool that the measurement describes, if any."""

    file: str
    of: Measurement
    keys: frozenset[str]
    pool: str


@dataclass(frozen=True)
class Listed:
    """A price list and the date of its prices."""

    file: str
    source: str
    as_of: date
    prices: PriceList

    @property
    def expires_at(self) -> datetime:
        return datetime.combine(self.as_of, time(), UTC) + USED_FOR


@dataclass(frozen=True)
class Machine:
    """A machine that the user owns."""

    name: str
    currency: str
    owned: Owned


@dataclass(frozen=True)
class Elsewhere:
    """The places outside the platform that a task names."""

    measured: list[Measured] = field(default_factory=list)
    listed: list[Listed] = field(default_factory=list)
    own: list[Machine] = field(default_factory=list)

    def __bool__(self) -> bool:
        return any(not one.pool for one in self.measured)

    def seconds_of(self, pool: str, sha256: str) -> Fraction | None:
        """Return the seconds for one item on a pool; None if not measured.

        The value is the p95 latency of single items in the newest measurement.
        """
        fitting = [one.of for one in self.measured if one.pool == pool and one.of.model_sha256 == sha256]
        for one in sorted(fitting, key=lambda read: read.measured_at, reverse=True):
            for row in one.rows:
                if (row.batch, row.concurrency) == (1, 1):
                    return row.latency
        return None


def places_read(task: Stated) -> Elsewhere:
    """Read the section [places] of a task. Raises FileFault."""
    table = task.table.table("places")
    if table is None:
        return Elsewhere()
    table.only(("measurements", "price_lists", "own"))
    return Elsewhere(
        [_measured(one, task) for one in table.rows("measurements")],
        [_listed(one) for one in table.rows("price_lists")],
        [_machine(one) for one in table.rows("own")],
    )


def _measured(table: Table, task: Stated) -> Measured:
    table.only(("file", "pool"))
    path, pool = table.path_of("file"), table.text("pool", "")
    if pool and (pool not in task.fleet.pools or not task.fleet.pools[pool].is_host):
        hosts = ", ".join(sorted(slug for slug, one in task.fleet.pools.items() if one.is_host)) or "none"
        raise table.wrong("pool", f'{pool!r} is no pool of the fleet with processor = "host"; those are: {hosts}.')
    data = file_read(path, "what takt measure -o wrote", named_by=table.at("file"))
    try:
        found = measurement_read(data, now=max(task.at, datetime.now(UTC)))
    except Unreadable as error:
        raise FileFault(path, "", str(error)) from None
    names = [*found.machines, *gpu_names(found.document)]
    return Measured(path.name, found, frozenset(key for key in map(name_key, names) if key), pool)


def _listed(table: Table) -> Listed:
    table.only(("file", "format", "source", "as_of"))
    path, known = table.path_of("file"), [one.value for one in Format]
    kind = table.text("format", "own")
    if kind not in known:
        raise table.wrong("format", f"there is no format {kind!r}; choose one of {', '.join(known)}.")
    data = file_read(path, "a price list as CSV", named_by=table.at("file"))
    try:
        found = pricelist_read(data, Format(kind))
    except Unreadable as error:
        raise FileFault(path, "", str(error)) from None
    return Listed(path.name, table.text("source", path.stem), table.day("as_of"), found)


def _machine(table: Table) -> Machine:
    table.only(OWN_KEYS)
    numbers = {key: table.number(key) for key in ("capital", "watts", "energy_price")}
    numbers["pue"] = table.number("pue", least=Decimal(1), most=Decimal(10))
    numbers["utilisation"] = table.number("utilisation", above=True, most=Decimal(1))
    months = table.whole("months", most=1200)
    for key, value in {**numbers, "months": months}.items():
        if value is None:
            raise table.wrong(key, f"state it; a machine of your own has {', '.join(OWN_KEYS)}.")
    exact = {key: Fraction(value or 0) for key, value in numbers.items()}
    return Machine(table.text("name"), table.text("currency"), Owned(months=months or 1, **exact))


def compared(
    elsewhere: Elsewhere, task: Stated, solution: Solution, models: Sequence[Model]
) -> tuple[list[Group], list[str]]:
    """Return the pools and other places, grouped by currency, and one sentence for each unused file."""
    places, unused = [*_pools(task, solution)], []
    used: list[tuple[Measured, HostingOption]] = []
    for one in sorted((m for m in elsewhere.measured if not m.pool), key=lambda m: m.of.measured_at, reverse=True):
        place = _place(one, task, solution, models)
        if isinstance(place, str):
            unused.append(f"{one.file}: {place}")
        else:
            used.append((one, place))
    current = []
    for listed in elsewhere.listed:
        if listed.expires_at <= task.at:
            unused.append(f"{listed.file}: its prices expired on {listed.expires_at:%Y-%m-%d}; give newer ones.")
        else:
            current.append(listed)
    for one, place in used:
        found = [*rented(place, _offers(current, one.keys)), *_owned(one, place, elsewhere.own)]
        places += found
        if not found:
            unused.append(f"{one.file}: no price list and no machine of your own has one of its names.")
    groups = groups_of(places[:OPTIONS_MAX], items=task.volume.items, currency=task.book.currency.code)
    return groups, unused


def _pools(task: Stated, solution: Solution) -> Iterator[HostingOption]:
    for one in [c for c in solution.candidates if c.feasible and c.price is not None][:POOLS_SHOWN]:
        each = Fraction(one.price or 0) / task.volume.items
        yield HostingOption(
            key=f"{one.title} on {one.pool}",
            kind=POOL,
            title=task.fleet.pools[one.pool].name,
            model=one.title,
            machine=one.pool,
            certainty=one.certainty,
            currency=task.book.currency.code,
            cost=Cost(each=each, least=Fraction(one.least)),
            latency=one.latency,
            source=f"price book {task.book.version}",
        )


def _place(one: Measured, task: Stated, solution: Solution, models: Sequence[Model]) -> HostingOption | str:
    model = next((m for m in models if m.sha256 == one.of.model_sha256), None)
    if model is None:
        return "it is not of a model of this task; measure one of them with takt measure."
    expires = one.of.measured_at + USED_FOR
    if expires <= task.at:
        return f"it expired on {expires:%Y-%m-%d}; measure again."
    stated = task.requirements
    taken = row_chosen(one.of.rows, leading=one.of.batch_dimension, item=model.dims, latency=stated.latency)
    if taken is None:
        return "it was measured with dimensions other than those of this task."
    row, rate = taken
    return HostingOption(
        key=one.file,
        kind=UNPRICED,
        title=one.of.hardware,
        model=model.name,
        machine=one.of.hardware,
        certainty="measured",
        rate=rate,
        latency=row.latency,
        note=f"batch {row.batch:,}, {row.concurrency:,} at once",
        reasons=tuple(_reasons(row.latency, model.name, task, solution)),
        measured_at=one.of.measured_at,
        expires_at=expires,
    )


def _reasons(latency: Fraction, model: str, task: Stated, solution: Solution) -> Iterator[str]:
    stated = task.requirements
    if stated.latency is not None and latency > stated.latency:
        took, wanted = figures.duration_format(latency), figures.duration_format(stated.latency)
        yield f"One item takes {took} (p95); the task requires at most {wanted}."
    if stated.accuracy is not None:
        known = next((c.accuracy for c in solution.candidates if c.title == model and c.accuracy is not None), None)
        if known is None or known < stated.accuracy:
            shown = "not evaluated" if known is None else f"at least {figures.percent_format(known, 2)}"
            yield f"The accuracy is {shown}; the task requires at least {figures.percent_format(stated.accuracy, 2)}."


def _offers(lists: Sequence[Listed], keys: frozenset[str]) -> list[Offer]:
    return [_offer(listed, price) for listed in lists for price in listed.prices.prices if _is_offered(price, keys)]


def _is_offered(price: Price, keys: frozenset[str]) -> bool:
    return is_offered(
        keys,
        machine=name_key(price.machine),
        accelerators=price.accelerators,
        accelerator=name_key(price.accelerator),
        gpu=name_key(price.gpu),
    )


def _offer(listed: Listed, price: Price) -> Offer:
    return Offer(
        label=f"{listed.file} {price.line}",
        machine=price.machine,
        region=price.region,
        zone=price.zone,
        currency=listed.prices.currency,
        on_demand=price.on_demand,
        spot=price.spot,
        seller=listed.source,
        source=f"{listed.file}, line {price.line}",
        number=price.line,
        expires_at=listed.expires_at,
    )


def _owned(one: Measured, place: HostingOption, own: Sequence[Machine]) -> Iterator[HostingOption]:
    for machine in own:
        if name_key(machine.name) in one.keys:
            yield owned(
                place,
                machine=machine.name,
                name=machine.name,
                currency=machine.currency,
                costs=machine.owned,
                source="stated in the task",
            )


def group_json(group: Group, items: int) -> dict[str, Any]:
    """Return the places of one currency as JSON, with the cost of `items` items and the break-even volumes."""
    return {
        "currency": group.currency,
        "reference": None if group.reference is None else group.reference.key,
        "places": [
            {
                "place": one.key,
                "kind": one.kind,
                "certainty": one.certainty,
                "note": one.note,
                "reasons": list(one.reasons),
                "cost": None if one.cost is None else str(one.cost.of(items)),
                "source": one.source,
                "expires": None if one.expires_at is None else one.expires_at.isoformat(),
            }
            for one in group.places
        ],
        "break_even": [{"place": b.place.key, "against": b.against.key, "first": b.first} for b in group.break_evens],
    }
