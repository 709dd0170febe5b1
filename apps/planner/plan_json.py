"""The stored form of a plan. Exact numbers are strings, and fractions are written as "3/4"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from apps.planner.candidates import metric_title
from apps.planner.models import Task
from apps.planner.solver import Candidate, Change, Requirements, Solution, Use
from apps.planner.variants import Deployment, VariantSet
from apps.pricing.limits import Window
from apps.pricing.rating import PriceBookDocument, classes_cheaper, decimal_text
from apps.timetable.instants import instant_after

PER_THOUSAND = 1000


def requirements_json(requirements: Requirements, klass: str, window: Window, until: datetime | None) -> dict[str, Any]:
    """Return the requirements as JSON data.

    `completion` is the deadline that applied; `until` is the stated deadline, if any.
    """
    stated = {
        name: None if value is None else str(value) for name, value in asdict(requirements).items() if name != "metric"
    }
    instants = {"completion": window.end.isoformat(), "until": until.isoformat() if until else None}
    return {**stated, "items": requirements.items, "klass": klass, **instants}


def candidate_json(
    candidate: Candidate, found: VariantSet, requirements: Requirements, now: datetime
) -> dict[str, Any]:
    """Return a candidate as JSON data, with its figures and the reasons against it."""
    deployments = [found.deployments[use.key] for use in candidate.uses]
    return {
        "kind": candidate.kind,
        "title": candidate.title,
        "pool": candidate.pool,
        "pool_name": deployments[0].pool.name,
        **_programs_json(candidate, deployments),
        "accuracy": _text(candidate.accuracy),
        "correct": candidate.correct,
        "total": candidate.total,
        "latency": _text(candidate.latency),
        "duration": _text(candidate.duration),
        "completion": None if candidate.completion is None else instant_after(now, candidate.completion).isoformat(),
        "certainty": candidate.certainty,
        "price": None if candidate.total_price is None else decimal_text(candidate.total_price),
        "price_per_thousand": _per_thousand(candidate.price, requirements.items),
        **_combination_json(candidate),
        "feasible": candidate.feasible,
        "reasons": list(candidate.reasons),
        "gaps": {name: str(value) for name, value in candidate.gaps},
        "on_frontier": candidate.on_frontier,
    }


def _programs_json(candidate: Candidate, deployments: Sequence[Deployment]) -> dict[str, Any]:
    programs = [str(one.program.pk) if one.program else None for one in deployments]
    lines = [_line_json(use, program) for use, program in zip(candidate.uses, programs, strict=True) if program]
    models = [{"version": str(one.version.pk), "name": one.title} for one in deployments]
    return {"models": models, "programs": programs, "lines": lines}


def _combination_json(candidate: Candidate) -> dict[str, Any]:
    return {
        "thresholds": [str(one) for one in candidate.thresholds],
        "shares": [str(one) for one in candidate.shares],
        "outputs": list(candidate.outputs),
        # The first of each, as in plans from when a cascade had two programs.
        "threshold": _text(next(iter(candidate.thresholds), None)),
        "share": _text(next(iter(candidate.shares), None)),
        "output": next(iter(candidate.outputs), ""),
    }


def _line_json(use: Use, program: str) -> dict[str, Any]:
    return {"program": program, "executions": use.executions, "expected": use.expected, "per_item": str(use.per_item)}


def _per_thousand(price: Decimal | None, items: int) -> str | None:
    return None if price is None else str(Fraction(price) * PER_THOUSAND / items)


def _text(value: Fraction | Decimal | None) -> str | None:
    return None if value is None else str(value)


def change_json(change: Change, solution: Solution) -> dict[str, Any]:
    """Return a change of requirements as JSON data, with the candidate that becomes feasible."""
    candidate = solution.candidates[change.candidate]
    return {
        "values": {name: str(value) for name, value in change.values},
        "title": candidate.title,
        "pool": candidate.pool,
        "price": decimal_text(change.price),
        "candidate": change.candidate,
    }


def basis_json(solution: Solution, found: VariantSet, book: PriceBookDocument, klass: str) -> dict[str, Any]:
    """Return the basis of a plan as JSON data: prices, numbers of candidates, and the state of pools and compiles."""
    return {
        "book": book.version,
        "book_digest": book.digest,
        "currency": book.currency.code,
        "class_title": book.price_class(klass).title,
        "cheaper_classes": [one.title for one in classes_cheaper(book, klass)],
        "examined": solution.examined,
        "judged": len(solution.candidates),
        "narrowed": [asdict(one) for one in solution.narrowed],
        "bounds": solution.bounds,
        "error": str(solution.error),
        "pools": _pools_json(found),
        "compiling": found.compiling,
    }


def _pools_json(found: VariantSet) -> dict[str, Any]:
    return {
        one.pool.slug: {
            "power_percent": one.pool.power_percent,
            "processor": one.pool.processor.digest if one.pool.processor else "",
            "devices": sorted(device.name for device in one.pool.devices.all() if device.is_active),
        }
        for one in found.deployments.values()
    }


def data_json(task: Task) -> dict[str, Any]:
    """Return the metric and the data set of a task as JSON data."""
    data = task.data_set
    named = {"name": data.name, "digest": data.digest, "items": data.items, "choose": data.choose, "seed": data.seed}
    return {"metric": metric_title(task), "data_set": named}
