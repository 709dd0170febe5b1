"""Compare a plan with rented and owned machines, from imported measurements and prices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.db.models import Q

from apps import figures
from apps.compilation.models import Program
from apps.planner.hosting.comparison import POOL, UNPRICED, Group, HostingOption, groups_of, row_chosen
from apps.planner.hosting.costs import Cost, Owned
from apps.planner.hosting.measurement import Row, measurement_of
from apps.planner.hosting.offers import OPTIONS_MAX, POOLS_SHOWN, Offer, is_offered, owned, rented
from apps.planner.hosting_models import OwnMachine, PlaceMeasurement, PriceListFile, RentedPrice
from apps.planner.models import Plan
from apps.planner.plan_text import score_format_of_plan
from apps.planner.score_format import ScoreFormat
from apps.pricing.selectors import book_of_digest
from apps.registry.models import ModelVersion

PER_THOUSAND = 1000
Rows = Sequence[dict[str, Any]]  # candidates as a plan stores them


@dataclass(frozen=True)
class Unused:
    """An imported file that was not compared, and the reason."""

    what: str
    reason: str


@dataclass(frozen=True)
class Comparison:
    """The monthly costs of a plan on every machine. `unpriced` lists the measured machines without a price."""

    items: int
    currency: str
    groups: list[Group]
    unpriced: list[HostingOption]
    unused: list[Unused]


@dataclass(frozen=True)
class TaskFacts:
    """The requirements of a plan, and what is known about its models.

    `models`, `items` and `accuracies` are keyed by the SHA-256 of the model.
    """

    models: Mapping[str, ModelVersion]
    items: Mapping[str, dict[str, int]]
    accuracies: Mapping[str, Fraction | None]
    latency: Fraction | None
    accuracy: Fraction | None
    score: ScoreFormat


@dataclass(frozen=True)
class Measured:
    """A measurement, the row that is compared, and the row's rate in items per second."""

    row: PlaceMeasurement
    chosen: Row
    rate: Fraction
    place: HostingOption


def comparison_of(plan: Plan, *, now: datetime) -> Comparison:
    """Compare the plan's pools with other machines. Only imported files that are valid at `now` are used."""
    currency, items = plan.basis["currency"], int(plan.requirements["items"])
    task = _task_facts(plan)
    used, unused = _measurements(plan, task, now=now)
    lists = list(PriceListFile.objects.filter(organisation=plan.organisation_id).order_by("source", "as_of", "id"))
    unused += [Unused(str(one), _expired(one.expires_at)) for one in lists if one.is_expired(now=now)]
    offers = _offers([one for one in lists if not one.is_expired(now=now)], used)
    own = list(OwnMachine.objects.filter(organisation=plan.organisation_id).order_by("name", "id"))
    places: list[HostingOption] = [*_pools(plan)]
    unpriced = []
    for one in used:
        found = [*rented(one.place, offers[str(one.row.pk)]), *_owned(one, own)]
        places += found
        if not found:
            unpriced.append(one.place)
    if len(places) > OPTIONS_MAX:
        unused.append(
            Unused(
                f"{len(places) - OPTIONS_MAX} more machines", f"At most {OPTIONS_MAX} machines are compared at once."
            )
        )
    groups = groups_of(_numbered(places[:OPTIONS_MAX]), items=items, currency=currency)
    return Comparison(items, currency, groups, unpriced, unused)


def _numbered(places: list[HostingOption]) -> list[HostingOption]:
    seen: Counter[str] = Counter()
    found = []
    for place in places:
        seen[place.key] += 1
        found.append(place if seen[place.key] == 1 else replace(place, key=f"{place.key} ({seen[place.key]})"))
    return found


def _expired(at: datetime) -> str:
    return f"Expired on {at:%Y-%m-%d}. Import a newer file."


def _task_facts(plan: Plan) -> TaskFacts:
    rows = [row for row in plan.candidates if row["kind"] == "single"]
    versions = _versions(plan, rows)
    known = [(row, versions[pk]) for row in rows if (pk := row["models"][0]["version"]) in versions]
    stated = plan.requirements
    return TaskFacts(
        models={one.sha256: one for one in versions.values()},
        items=_item_sizes(plan, known),
        accuracies={
            version.sha256: Fraction(row["accuracy"])
            for row, version in known
            if row["accuracy"] is not None and row["models"][0]["name"] == str(version)  # other machines run float32
        },
        latency=_fraction(stated["latency"]),
        accuracy=_fraction(stated["accuracy"]),
        score=score_format_of_plan(plan),
    )


def _versions(plan: Plan, rows: Rows) -> dict[str, ModelVersion]:
    wanted = {UUID(row["models"][0]["version"]) for row in rows}
    found = ModelVersion.objects.filter(organisation=plan.organisation_id, pk__in=wanted).select_related("model")
    return {str(one.pk): one for one in found}


def _item_sizes(plan: Plan, known: Sequence[tuple[dict[str, Any], ModelVersion]]) -> dict[str, dict[str, int]]:
    programs = {program for row, _ in known for program in row["programs"] if program}
    found = Program.objects.filter(organisation=plan.organisation_id, pk__in=programs)
    dims = {str(pk): sizes for pk, sizes in found.values_list("pk", "dims")}
    items: dict[str, dict[str, int]] = {}
    for row, version in known:
        if row["programs"][0] in dims:
            items.setdefault(version.sha256, dims[row["programs"][0]])
    return items


def _fraction(value: str | None) -> Fraction | None:
    return None if value is None else Fraction(value)


def _pools(plan: Plan) -> Iterator[HostingOption]:
    feasible = [row for row in plan.candidates if row["feasible"] and row["price_per_thousand"] is not None][
        :POOLS_SHOWN
    ]
    least = Fraction(book_of_digest(plan.basis["book_digest"]).contract_minimum) if feasible else Fraction(0)
    for row in feasible:
        yield HostingOption(
            key=f"{row['title']} on {row['pool']}",
            kind=POOL,
            title=row["pool_name"],
            model=row["title"],
            machine=row["pool"],
            certainty=row["certainty"],
            currency=plan.basis["currency"],
            cost=Cost(each=Fraction(row["price_per_thousand"]) / PER_THOUSAND, least=least),
            latency=None if row["latency"] is None else Fraction(row["latency"]),
            source=f"price book {plan.basis['book']}",
        )


def _measurements(plan: Plan, task: TaskFacts, *, now: datetime) -> tuple[list[Measured], list[Unused]]:
    used: list[Measured] = []
    unused: list[Unused] = []
    seen: set[tuple[Any, ...]] = set()
    rows = PlaceMeasurement.objects.filter(organisation=plan.organisation_id, model_sha256__in=task.models)
    for row in rows.order_by("-measured_at", "-id"):
        key = (row.model_sha256, row.hardware, row.runtime, tuple(row.keys))
        if row.is_expired(now=now):
            unused.append(Unused(str(row), _expired(row.expires_at)))
        elif key in seen:
            unused.append(Unused(str(row), "A newer measurement of this machine is used."))
        else:
            found = _judged(row, task, now=now)
            if found is None:
                unused.append(
                    Unused(str(row), "The machine was measured with item sizes that differ from those of this plan.")
                )
                continue
            seen.add(key)
            used.append(found)
    return used, unused


def _judged(row: PlaceMeasurement, task: TaskFacts, *, now: datetime) -> Measured | None:
    read = measurement_of(row.document, now=now)
    item = task.items.get(row.model_sha256)
    chosen = (
        row_chosen(read.rows, leading=read.batch_dimension, item=item, latency=task.latency)
        if item is not None
        else None
    )
    if chosen is None:
        return None
    best, rate = chosen
    place = HostingOption(
        key=str(row.pk),
        kind=UNPRICED,
        title=row.hardware,
        model=str(task.models[row.model_sha256]),
        machine=row.hardware,
        certainty="measured",
        rate=rate,
        latency=best.latency,
        note=f"{row.runtime}, batch {best.batch:,}, concurrency {best.concurrency:,}",
        reasons=tuple(_reasons(best, row.model_sha256, task)),
        measured_at=row.measured_at,
        expires_at=row.expires_at,
    )
    return Measured(row, best, rate, place)


def _reasons(row: Row, sha256: str, task: TaskFacts) -> Iterator[str]:
    if task.latency is not None and row.latency > task.latency:
        took, wanted = figures.duration_format(row.latency), figures.duration_format(task.latency)
        yield f"One item takes {took} (p95); the maximum is {wanted}."
    if task.accuracy is not None:
        known = task.accuracies.get(sha256)
        score, wanted = task.score, task.score.text(task.accuracy)
        if known is None:
            yield f"The program was not evaluated; the plan requires {score.named} of {score.side} {wanted}."
        elif known < task.accuracy:
            yield f"The {score.name} is {score.side} {score.text(known)}; the plan requires {wanted}."


Offers = dict[str, list[Offer]]  # by the id of a measurement


def _offers(lists: list[PriceListFile], used: list[Measured]) -> Offers:
    keys = {key for one in used for key in one.row.keys}
    one_gpu = Q(accelerators=1) & (Q(accelerator_key__in=keys) | Q(gpu_key__in=keys))
    by_id = {one.pk: one for one in lists}
    rows = []
    if keys and by_id:
        rows = list(RentedPrice.objects.filter(Q(machine_key__in=keys) | one_gpu, price_list__in=by_id).order_by("id"))
    return {
        str(one.row.pk): [_offer(row, by_id[row.price_list_id]) for row in rows if _is_offered(row, set(one.row.keys))]
        for one in used
    }


def _is_offered(row: RentedPrice, keys: set[str]) -> bool:
    return is_offered(
        keys, machine=row.machine_key, accelerators=row.accelerators, accelerator=row.accelerator_key, gpu=row.gpu_key
    )


def _offer(row: RentedPrice, price_list: PriceListFile) -> Offer:
    return Offer(
        label=str(row.pk),
        machine=row.machine,
        region=row.region,
        zone=row.zone,
        currency=price_list.currency,
        on_demand=row.on_demand,
        spot=row.spot,
        seller=price_list.source,
        source=f"{price_list}, line {row.line}",
        number=row.pk,
        expires_at=price_list.expires_at,
    )


def _owned(one: Measured, own: Iterable[OwnMachine]) -> Iterator[HostingOption]:
    for machine in own:
        if machine.key in one.row.keys:
            costs = Owned(
                capital=Fraction(machine.capital),
                months=machine.months,
                watts=Fraction(machine.watts),
                energy_price=Fraction(machine.energy_price),
                pue=Fraction(machine.pue),
                utilisation=Fraction(machine.utilisation),
            )
            yield owned(
                one.place,
                machine=str(machine.pk),
                name=machine.name,
                currency=machine.currency,
                costs=costs,
                source="entered by your organisation",
            )
