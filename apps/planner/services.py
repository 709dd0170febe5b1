"""Making a plan."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.compilation.models import CompileJob
from apps.compilation.services import dims_checked, job_create
from apps.planner.candidates import candidate_models_of_task, metric_title
from apps.planner.capacity import Timetables
from apps.planner.models import Plan, Task
from apps.planner.score_format import DEFAULT, score_format_of
from apps.planner.solver import OBJECTIVES, Candidate, Change, Requirements, Solution, Use, solve
from apps.planner.variants import VariantSet, candidate_models_of_version, missing_programs, variants_collect
from apps.pricing.limits import Window, tariff_instant, window_of
from apps.pricing.rating import PriceBookDocument, class_default, classes_plannable, decimal_text
from apps.pricing.selectors import book_in_force, document_of
from apps.registry.models import ModelVersion
from apps.timetable.instants import instant_after, seconds_between

ITEMS_MAX = 10**12
PER_THOUSAND = 1000


@transaction.atomic
def plan_create(
    *,
    subject: ModelVersion | Task,
    requirements: Requirements,
    actor: User,
    now: datetime,
    klass: str = "",
    dims: dict[str, int] | None = None,
    until: datetime | None = None,
    revises: str = "",
) -> Plan:
    """Try every alternative of a version, or every candidate of a task, on every pool, and combinations of them; keep the answer.

    A candidate is feasible only where its pool has room for it until the instant `until`, by default as far ahead as a
    quote reaches that says nothing: its quote would be accepted now. `revises`: the contract whose rest is planned and
    whose own time counts as free.
    Raises Problem(422) for requirements that no task can have or a class that is not offered, Problem(409) while no price
    book is in force.
    """
    task, version = (subject, None) if isinstance(subject, Task) else (None, subject)
    requirements = replace(requirements, metric=metric_title(task) if task else DEFAULT)
    _check(requirements, until=until, now=now)
    window = window_of(None, until, now=now)
    requirements = replace(requirements, completion=seconds_between(now, window.end))
    if version is not None and dims is not None:
        dims_checked(version, dims)
    book = document_of(book_in_force(at=now))
    klass = klass or class_default(book)
    _class_check(klass, book)
    found = _gathered(subject, dims, klass, book, window)
    without = UUID(revises) if revises else None
    capacity = Timetables(book=book, klass=klass, window=window, now=now, without=without)
    solution = solve(found.variants, requirements, capacity)
    candidates = [_candidate_json(c, found, requirements, now) for c in solution.candidates]
    plan = Plan.objects.create(
        organisation=subject.organisation,
        model_version=version,
        task=task,
        title=f"{_name(subject)}: {requirements.items:,} items"[:200],
        requirements=_requirements_json(requirements, klass, window, until),
        candidates=candidates,
        chosen=None if solution.chosen is None else candidates[solution.chosen],
        changes=[_change_json(change, solution) for change in solution.changes],
        basis={
            **_solution_json(solution, book, klass),
            "dims": dims or {},
            "pools": _pools_json(found),
            **({} if task is None else _data_json(task)),
            **({"revises": revises} if revises else {}),
        },
        created_by=actor,
        created_at=now,
    )
    audit_record(
        action="plan.create", now=now, actor=actor, organisation=subject.organisation, subject=f"plan {plan.pk}"
    )
    return plan


def _gathered(
    subject: ModelVersion | Task, dims: dict[str, int] | None, klass: str, book: PriceBookDocument, window: Window
) -> VariantSet:
    """The variants at the prices of the class within the window. Raises Problem."""
    instant = tariff_instant(book=book, price_class=book.price_class(klass), window=window)
    choice = (
        candidate_models_of_task(subject) if isinstance(subject, Task) else candidate_models_of_version(subject, dims)
    )
    found = variants_collect(choice=choice, klass=klass, book=book, instant=instant)
    if not found.variants:
        detail = "None of the task's models is there any more; upload one, or make a new task."
        raise Problem(409, "No model", detail, kind="model-missing")
    return found


def _solution_json(solution: Solution, book: PriceBookDocument, klass: str) -> dict[str, Any]:
    """By which prices and how thoroughly candidates were judged."""
    return {
        "book": book.version,
        "book_digest": book.digest,
        "currency": book.currency.code,
        "class_title": book.price_class(klass).title,
        "examined": solution.examined,
        "judged": len(solution.candidates),
        "narrowed": [asdict(one) for one in solution.narrowed],
        "bounds": solution.bounds,
        "error": str(solution.error),
    }


def _pools_json(found: VariantSet) -> dict[str, Any]:
    """How each pool ran when the plan was made, so that a later refusal can say what has changed."""
    return {
        deployment.pool.slug: {
            "power_percent": deployment.pool.power_percent,
            "processor": deployment.pool.processor.digest if deployment.pool.processor else "",
            "devices": sorted(device.name for device in deployment.pool.devices.all() if device.is_active),
        }
        for deployment in found.deployments.values()
    }


def _data_json(task: Task) -> dict[str, Any]:
    """On what the accuracies of a task's plan were measured, and by which metric."""
    data = task.data_set
    named = {"name": data.name, "digest": data.digest, "items": data.items, "choose": data.choose, "seed": data.seed}
    return {"metric": metric_title(task), "data_set": named}


def _name(subject: ModelVersion | Task) -> str:
    return subject.name if isinstance(subject, Task) else subject.model.name


def _check(requirements: Requirements, *, until: datetime | None, now: datetime) -> None:
    errors = []
    if until is not None and until <= now:
        errors.append({"field": "until", "message": "State an instant to come until which all items must be done."})
    if not 1 <= requirements.items <= ITEMS_MAX:
        errors.append({"field": "items", "message": f"State a number of items from 1 to {ITEMS_MAX:,}."})
    if requirements.accuracy is not None and not 0 < requirements.accuracy < 1:
        errors.append({"field": "accuracy", "message": score_format_of(requirements.metric).range_said})
    if requirements.objective not in OBJECTIVES:
        errors.append({"field": "objective", "message": f"Choose one of {', '.join(OBJECTIVES)}."})
    for name in ("latency", "duration", "budget"):
        value = getattr(requirements, name)
        if value is not None and value <= 0:
            errors.append({"field": name, "message": f"State a {name} above zero, or leave it out."})
    if errors:
        detail = " ".join(error["message"] for error in errors)
        raise Problem(422, "Requirements that nothing can meet", detail, kind="requirements-impossible", errors=errors)


def _class_check(klass: str, book: PriceBookDocument) -> None:
    """Raise Problem(422) unless the price book offers the class at any hour."""
    names = sorted(one.name for one in classes_plannable(book))
    if klass in names:
        return
    if not names:
        detail = "The price book offers no class that runs at any hour, so nothing can be planned. Ask the administrator for one."
    else:
        detail = f"Plans can't use class {klass[:40]!r}. Choose one of {', '.join(names)}."
    raise Problem(422, "Class not offered", detail, kind="class-not-offered")


def _requirements_json(
    requirements: Requirements, klass: str, window: Window, until: datetime | None
) -> dict[str, Any]:
    """`completion` is the instant until which there had to be room, `until` the same where it was stated."""
    stated = {
        name: None if value is None else str(value) for name, value in asdict(requirements).items() if name != "metric"
    }
    instants = {"completion": window.end.isoformat(), "until": until.isoformat() if until else None}
    return {**stated, "items": requirements.items, "klass": klass, **instants}


def _candidate_json(
    candidate: Candidate, found: VariantSet, requirements: Requirements, now: datetime
) -> dict[str, Any]:
    """Exact numbers as strings: fractions as "3/4", amounts in full."""
    deployments = [found.deployments[use.key] for use in candidate.uses]
    pool = deployments[0].pool
    programs = [str(deployment.program.pk) if deployment.program else None for deployment in deployments]
    return {
        "kind": candidate.kind,
        "title": candidate.title,
        "pool": candidate.pool,
        "pool_name": pool.name,
        "models": [{"version": str(deployment.version.pk), "name": deployment.title} for deployment in deployments],
        "programs": programs,
        "lines": [_line_json(use, program) for use, program in zip(candidate.uses, programs, strict=True) if program],
        "accuracy": _text(candidate.accuracy),
        "correct": candidate.correct,
        "total": candidate.total,
        "latency": _text(candidate.latency),
        "duration": _text(candidate.duration),
        "completion": None if candidate.completion is None else instant_after(now, candidate.completion).isoformat(),
        "certainty": candidate.certainty,
        "price": None if candidate.total_price is None else decimal_text(candidate.total_price),
        "price_per_thousand": _per_thousand(candidate.price, requirements.items),
        "thresholds": [str(one) for one in candidate.thresholds],
        "shares": [str(one) for one in candidate.shares],
        "outputs": list(candidate.outputs),
        # The first of each, as plans had them when a cascade had two programs.
        "threshold": _text(next(iter(candidate.thresholds), None)),
        "share": _text(next(iter(candidate.shares), None)),
        "output": next(iter(candidate.outputs), ""),
        "feasible": candidate.feasible,
        "reasons": list(candidate.reasons),
        "on_frontier": candidate.on_frontier,
    }


def _line_json(use: Use, program: str) -> dict[str, Any]:
    """`executions` are what the price counts; `per_item` is the exact share, `expected` what was seen on the evaluation."""
    return {"program": program, "executions": use.executions, "expected": use.expected, "per_item": str(use.per_item)}


def _per_thousand(price: Decimal | None, items: int) -> str | None:
    """For reading: an exact fraction of the amount, as "1/3"."""
    return None if price is None else str(Fraction(price) * PER_THOUSAND / items)


def _text(value: Fraction | Decimal | None) -> str | None:
    return None if value is None else str(value)


def _change_json(change: Change, solution: Solution) -> dict[str, Any]:
    candidate = solution.candidates[change.candidate]
    return {
        "values": {name: str(value) for name, value in change.values},
        "title": candidate.title,
        "pool": candidate.pool,
        "price": decimal_text(change.price),
        "candidate": change.candidate,
    }


@transaction.atomic
def alternatives_compile(
    *, version: ModelVersion, dims: dict[str, int] | None, actor: User, now: datetime
) -> list[CompileJob]:
    """Queue the compile of every alternative for every processor on offer for which it has no program yet.

    Open lengths are set so that all alternatives take the same items; one that cannot is left out.
    """
    return [
        job_create(version=one, target=target, dims=dict(lengths), actor=actor, now=now)
        for one, target, lengths in missing_programs(version=version, dims=dims)
    ]
