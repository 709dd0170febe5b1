"""Format a comparison of machines for the page, the files and the API."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

from apps import figures
from apps.measurements import NANOSECONDS
from apps.planner.hosting.comparison import HOURLY, MONTHLY, OWN, POOL, SPOT, BreakEven, Group, HostingOption
from apps.planner.hosting.costs import HOURS, Cost
from apps.planner.hosting.measurement import Row
from apps.planner.hosting_comparison import Comparison
from apps.planner.models import Plan

PLACES = 12  # of an amount in the CSV
PER_THOUSAND = 1000
WATT = 1000  # milliwatts
STEPS_DRAWN, RANGES_TOLD = 20, 20
CSV_COLUMNS = (
    "currency",
    "items_per_month",
    "place",
    "kind",
    "model",
    "certainty",
    "interruptible",
    "measured_at",
    "expires_at",
    "source",
    "machines",
    "cost",
    "meets_task",
    "break_even_from",
    "break_even_until",
    "against",
)


def document(plan: Plan, comparison: Comparison, *, now: datetime) -> dict[str, Any]:
    """Return the comparison as JSON data. Amounts and rates are exact fractions ("3/4")."""
    return {
        "plan": str(plan.pk),
        "title": plan.title,
        "at": now.isoformat(),
        "items_per_month": comparison.items,
        "hours_per_month": HOURS,
        "groups": [_group_json(group) for group in comparison.groups],
        "without_price": [_place_json(place) for place in comparison.unpriced],
        "unused": [{"what": one.what, "reason": one.reason} for one in comparison.unused],
    }


def _group_json(group: Group) -> dict[str, Any]:
    return {
        "currency": group.currency,
        "reference": group.reference.key if group.reference else None,
        "places": [_place_json(place) for place in group.places],
        "break_even": [
            {
                "place": one.place.key,
                "against": one.against.key,
                "ranges": [[found.first, found.last] for found in one.ranges[:RANGES_TOLD]],
                "ranges_in_all": len(one.ranges),
                "searched_to": one.searched,
            }
            for one in group.break_evens
        ],
        "volumes": [
            {
                "items_per_month": volume,
                "costs": {place.key: str(place.cost.of(volume)) for place in group.places if place.cost},
            }
            for volume in group.volumes
        ],
    }


def _place_json(place: HostingOption) -> dict[str, Any]:
    cost = place.cost
    return {
        "place": place.key,
        "kind": place.kind,
        "title": place.title,
        "model": place.model,
        "certainty": place.certainty,
        "interruptible": place.is_interruptible,
        "note": place.note,
        "source": place.source,
        "measured_at": place.measured_at.isoformat() if place.measured_at else None,
        "expires_at": place.expires_at.isoformat() if place.expires_at else None,
        "items_per_second": None if place.rate is None else str(place.rate),
        "latency_seconds": None if place.latency is None else str(place.latency),
        "reasons": list(place.reasons),
        "cost": None
        if cost is None
        else {
            "per_item": str(cost.each),
            "per_machine_and_month": str(cost.fixed),
            "items_of_a_machine": None if cost.capacity is None else str(cost.capacity),
            "minimum": str(cost.least),
        },
    }


def as_csv(comparison: Comparison) -> str:
    """Return the comparison as CSV, with one row per machine and volume.

    Costs are rounded half to even, to 12 decimal places.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(CSV_COLUMNS)
    for group in comparison.groups:
        against = {one.place.key: one for one in group.break_evens if one.against is group.reference}
        for place in group.places:
            for volume in group.volumes:
                writer.writerow(_csv_row(group.currency, volume, place, against.get(place.key)))
    return out.getvalue()


def _csv_row(currency: str, volume: int, place: HostingOption, even: BreakEven | None) -> list[object]:
    assert place.cost is not None
    first = even.ranges[0] if even and even.ranges else None
    return [
        currency,
        volume,
        _cell(place.key),
        place.kind,
        _cell(place.model),
        place.certainty,
        "yes" if place.is_interruptible else "no",
        _instant(place.measured_at),
        _instant(place.expires_at),
        _cell(place.source),
        place.cost.machines(volume),
        _amount(place.cost.of(volume)),
        "no" if place.reasons else "yes",
        first.first if first else "",
        first.last if first else "",
        _cell(even.against.key) if even else "",
    ]


def _cell(text: str) -> str:
    # A spreadsheet would run such text as a formula.
    return f"'{text}" if text[:1] in "=+-@\t\r" else text


def _instant(at: datetime | None) -> str:
    return at.isoformat() if at else ""


def group_rows(group: Group, items: int) -> dict[str, Any]:
    """Return the data that the page shows for a group."""
    labels = {place.key: f"{chr(ord('A') + index)} {short(place)}" for index, place in enumerate(group.places)}
    return {
        "currency": group.currency,
        "reference": labels[group.reference.key] if group.reference else "",
        "has_others": any(place.kind != POOL for place in group.places),
        "places": [_place_row(place, group, items, labels) for place in group.places],
        "columns": list(labels.values()),
        "volumes": [_volume_row(group, volume, items, labels) for volume in group.volumes],
        "chart": chart(group, items, labels),
        "chart_id": f"places-{group.currency.lower()}",
        "heading": f"Prices in {group.currency}",
        "title": f"Monthly cost by volume ({group.currency})",
    }


KINDS = {HOURLY: "by the hour", MONTHLY: "whole months", SPOT: "spot", OWN: "your own"}


def short(place: HostingOption) -> str:
    """Return a short name for a hosting option."""
    return f"{place.model} on {place.title}" if place.kind == POOL else f"{place.title}, {KINDS[place.kind]}"


def _place_row(place: HostingOption, group: Group, items: int, labels: dict[str, str]) -> dict[str, Any]:
    assert place.cost is not None
    machines = place.cost.machines(items) if place.cost.capacity is not None else None
    return {
        "place": place,
        "label": labels[place.key],
        "cost": _amount(place.cost.of(items)),
        "per_thousand": _amount(place.cost.of(items) * PER_THOUSAND / items),
        "machines": machines,
        "time": None if place.rate is None else Fraction(items) / place.rate / (machines or 1),
        "is_reference": place is group.reference,
        "sentences": [sentence(one, labels[one.against.key]) for one in group.break_evens if one.place is place],
    }


def _amount(value: Fraction) -> str:
    return figures.fixed(value, PLACES).replace(",", "")


def sentence(one: BreakEven, other: str) -> str:
    """Say at which volumes a machine costs no more than another."""
    if not one.ranges:
        return f"Costs more than {other} at every volume up to {figures.count_format(one.searched)} items per month."
    first = one.ranges[0]
    if first.last >= one.searched:
        where = "at every volume" if first.first == 1 else f"from {figures.count_format(first.first)} items per month"
        return f"Costs no more than {other} {where}."
    later = f"from {figures.count_format(one.ranges[1].first)} items per month" if len(one.ranges) > 1 else ""
    if first.first == first.last:
        later = f", and costs no more {later}" if later else ""
        return f"Costs more than {other}, except at {figures.count_format(first.first)} items per month{later}."
    least = "" if first.first == 1 else f"from {figures.count_format(first.first)} "
    where = f"{least}{'to' if least else 'up to'} {figures.count_format(first.last)} items per month"
    return f"Costs no more than {other} {where}{f', and again {later}' if later else ''}."


def _volume_row(group: Group, volume: int, items: int, labels: dict[str, str]) -> dict[str, Any]:
    costs = [place.cost.of(volume) for place in group.places if place.cost]
    least = min(costs)
    return {
        "volume": volume,
        "is_plan": volume == items,
        "marks": [mark for one in group.break_evens for mark in _marks(one, volume, labels)],
        "costs": [{"amount": _amount(cost), "is_least": cost == least} for cost in costs],
    }


def _marks(one: BreakEven, volume: int, labels: dict[str, str]) -> list[str]:
    if not one.ranges or volume == 1:
        return []
    first = one.ranges[0]
    pair = f"{labels[one.place.key].split()[0]} and {labels[one.against.key].split()[0]}"
    if volume == first.first:
        return [f"break-even of {pair}"]
    return [f"end of break-even of {pair}"] if volume == first.last + 1 <= one.searched else []


def chart(group: Group, items: int, labels: dict[str, str]) -> dict[str, Any]:
    """Return the cost curves of a group by volume, for the chart. Floats are only for drawing."""
    return {
        "x": "Items per month",
        "unit": group.currency,
        "plan": items,
        "series": [
            {
                "name": labels[place.key],
                "dashed": place.is_interruptible,
                "strong": place is group.reference,
                "points": [[volume, float(place.cost.of(volume))] for volume in _drawn(place.cost, group.volumes)],
            }
            for place in group.places
            if place.cost
        ],
        "marks": [
            {
                "name": f"{labels[one.place.key]}: {said} {figures.count_format(volume)} items per month",
                "x": volume,
                "y": height,
            }
            for one in group.break_evens
            if one.against is group.reference
            for said, volume, height in _crossing(one)
        ],
    }


def _crossing(one: BreakEven) -> list[tuple[str, int, float]]:
    if not one.ranges or one.place.cost is None:
        return []
    first = one.ranges[0]
    if first.first == 1 and first.last >= one.searched:
        return []
    said, volume = ("cheaper from", first.first) if first.first > 1 else ("cheaper up to", first.last)
    return [(said, volume, float(one.place.cost.of(volume)))]


def _drawn(cost: Cost, volumes: Sequence[int]) -> list[int]:
    if cost.capacity is None:
        return list(volumes)
    steps = [cost.last_of(machines) for machines in range(1, STEPS_DRAWN)]
    around = {volume for step in steps for volume in (step, step + 1) if volumes[0] <= volume <= volumes[-1]}
    return sorted({*volumes, *around})


def measured_row(row: Row) -> dict[str, Any]:
    """Return a measured row for display, with times in seconds and power in watts."""
    times = {f"p{percent}": Fraction(getattr(row, f"p{percent}_ns"), NANOSECONDS) for percent in (50, 95, 99)}
    watts = None if row.milliwatts is None else f"{figures.fixed(Fraction(row.milliwatts, WATT), 1)} W"
    return {"row": row, **times, "watts": watts}
