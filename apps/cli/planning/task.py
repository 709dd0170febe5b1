"""A task's file: its requirements, models, fleet and prices."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from apps.cli.planning.reading import FileFault, Table, digest_of, file_read, toml_read
from apps.cli.planning.volume import Volume, volume_read
from apps.fleet.document import Document, DocumentError
from apps.fleet.document import parse as fleet_parse
from apps.planner.solver import Requirements
from apps.pricing.rating import BookError, PriceBookDocument, book_from_text, class_default, classes_plannable
from apps.pricing.windows import DEFAULT_WINDOW, LONGEST_WINDOW, Window
from compiler import targets

FORMAT = "takt-task/1"
WHAT = f'a task file that begins with format = "{FORMAT}"'
KEYS = ("format", "name", "fleet", "book", "class", "at", "volume", "requirements", "data", "models", "places")
REQUIREMENTS = ("accuracy", "latency_seconds", "duration_seconds", "complete_within_hours", "budget")


@dataclass(frozen=True)
class Stated:
    """A task as described in its file. `at` is the time of planning."""

    path: Path
    table: Table
    name: str
    fleet: Document
    book: PriceBookDocument
    klass: str
    at: datetime
    volume: Volume
    requirements: Requirements
    window: Window


def task_read(path: Path, *, now: datetime) -> Stated:
    """Read the task, its fleet and its price book. Raises FileFault."""
    table = toml_read(path, WHAT, FORMAT).only(KEYS)
    book, fleet = _book(table), _fleet(table)
    klass = table.text("class", class_default(book))
    offered = sorted(one.name for one in classes_plannable(book))
    if not offered:
        raise table.wrong(
            "book", "it limits every class to certain hours; give a price book that has a class without this limit."
        )
    if klass not in offered:
        raise table.wrong("class", f"a plan can't use class {klass!r}; choose one of {', '.join(offered)}.")
    at, volume = table.instant("at") or now, volume_read(table)
    requirements, window = _requirements(table, volume, at)
    name = table.text("name", path.stem)
    return Stated(path, table, name, fleet, book, klass, at, volume, requirements, window)


def _requirements(task: Table, volume: Volume, at: datetime) -> tuple[Requirements, Window]:
    table = task.table("requirements") or Table(task.path, "requirements", {})
    table.only(REQUIREMENTS)
    accuracy = table.number("accuracy", above=True, most=Decimal("0.999999"))
    hours = table.number("complete_within_hours", above=True, most=Decimal(LONGEST_WINDOW / timedelta(hours=1)))
    within = timedelta(microseconds=int(Fraction(hours) * 3_600_000_000)) if hours is not None else None
    if volume.period is not None and within is not None and within < volume.period:
        said = "the items keep coming for longer than that; state more hours, or remove it: then it is the time of the volume."
        raise table.wrong("complete_within_hours", said)
    window = Window(at, at + (within or volume.period or DEFAULT_WINDOW))
    latency, duration = (table.number(key, above=True) for key in ("latency_seconds", "duration_seconds"))
    seconds = Fraction((window.end - at) // timedelta(microseconds=1), 10**6)
    found = Requirements(
        items=volume.items,
        accuracy=_fraction(accuracy),
        latency=_fraction(latency),
        duration=_fraction(duration),
        completion=seconds,
        budget=table.number("budget", above=True),
    )
    return found, window


def _fraction(value: Decimal | None) -> Fraction | None:
    return None if value is None else Fraction(value)


def _fleet(task: Table) -> Document:
    path = task.path_of("fleet")
    data = file_read(path, 'a fleet file that begins with format = "takt-fleet/1"', named_by="fleet")
    known = {name: targets.load(name).price_class for name in targets.names()}
    try:
        fleet = fleet_parse(data, known=known)
    except DocumentError as error:
        raise FileFault(path, "", str(error)) from None
    if not fleet.pools:
        raise FileFault(path, "pools", "the fleet has no pool; add one, such as [pools.lpu-a].")
    return fleet


def _book(task: Table) -> PriceBookDocument:
    path = task.path_of("book")
    document = json_read(path, "a price book, as JSON: download it under Prices", named_by="book")
    inner = document.get("document")
    try:
        return book_from_text(json.dumps(inner if isinstance(inner, dict) else document))
    except BookError as error:
        raise FileFault(path, "", f"{error}; download the price book under Prices.") from None


def json_read(path: Path, what: str, *, named_by: str) -> dict[str, Any]:
    """Read a JSON object. Raises FileFault."""
    data = file_read(path, what, named_by=named_by)
    try:
        document = json.loads(data)
    except json.JSONDecodeError as error:
        raise FileFault(
            path, f"line {error.lineno}", f"it is not JSON, or it is cut off ({error.msg}); give {what}."
        ) from None
    except (ValueError, RecursionError):
        raise FileFault(path, "", f"it is not JSON; give {what}.") from None
    if not isinstance(document, dict):
        raise FileFault(path, "", f"it holds no JSON object; give {what}.")
    return document


def facts_of(task: Stated, models: dict[str, str]) -> dict[str, Any]:
    """Return the digests of everything that a plan depends on."""
    stated = [
        one if one is None else str(one)
        for one in (
            task.requirements.accuracy,
            task.requirements.latency,
            task.requirements.duration,
            task.requirements.budget,
        )
    ]
    table = task.table.table("requirements")
    stated += [task.klass, str(table.values.get("complete_within_hours")) if table else ""]
    return {
        "models": models,
        "fleet": task.fleet.digest,
        "book": task.book.digest,
        "volume": task.volume.words,
        "requirements": digest_of(json.dumps(stated).encode()),
    }
