"""Make plans, and start missing compiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.models import Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.services import audit_record
from apps.compilation.models import CompileJob
from apps.compilation.services import dims_checked, job_create
from apps.planner.candidates import candidate_models_of_task, metric_title
from apps.planner.capacity import Timetables
from apps.planner.models import Plan, Task
from apps.planner.plan_json import basis_json, candidate_json, change_json, data_json, requirements_json
from apps.planner.score_format import DEFAULT, score_format_of
from apps.planner.solver import OBJECTIVES, Requirements, solve
from apps.planner.variants import VariantSet, candidate_models_of_version, missing_programs, variants_collect
from apps.pricing.limits import Window, tariff_instant, window_of
from apps.pricing.rating import PriceBookDocument, class_default, classes_plannable
from apps.pricing.selectors import book_in_force, document_of
from apps.registry.models import ModelVersion
from apps.timetable.instants import seconds_between

ITEMS_MAX = 10**12


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
    """Compare all candidates on every pool, and store the result as a plan.

    `until` defaults to the end of a quote's default window, and `klass` to the price book's default class. The
    reservations of the contract `revises` count as free. Raises Problem(422) for impossible requirements or a class
    that is not offered, and Problem(409) if there is no price book.
    """
    task = subject if isinstance(subject, Task) else None
    window = _window(requirements, task, until=until, now=now)
    requirements = replace(
        requirements,
        metric=metric_title(task) if task else DEFAULT,
        completion=seconds_between(now, window.end),
    )
    if isinstance(subject, ModelVersion) and dims is not None:
        dims_checked(subject, dims)
    book = document_of(book_in_force(at=now))
    klass = klass or class_default(book)
    _class_check(klass, book)
    found = _variants(subject, dims, klass, book, window)
    without = UUID(revises) if revises else None
    solution = solve(
        found.variants, requirements, Timetables(book=book, klass=klass, window=window, now=now, without=without)
    )
    candidates = [candidate_json(one, found, requirements, now) for one in solution.candidates]
    plan = Plan.objects.create(
        organisation=subject.organisation,
        model_version=None if isinstance(subject, Task) else subject,
        task=task,
        title=f"{_name(subject)}: {requirements.items:,} items"[:200],
        requirements=requirements_json(requirements, klass, window, until),
        candidates=candidates,
        chosen=None if solution.chosen is None else candidates[solution.chosen],
        changes=[change_json(change, solution) for change in solution.changes],
        basis=basis_json(solution, found, book, klass) | _subject_json(task, dims, revises),
        created_by=actor,
        created_at=now,
    )
    audit_record(
        action="plan.create", now=now, actor=actor, organisation=subject.organisation, subject=f"plan {plan.pk}"
    )
    return plan


def _window(requirements: Requirements, task: Task | None, *, until: datetime | None, now: datetime) -> Window:
    metric = metric_title(task) if task else DEFAULT
    errors = list(_faults(requirements, metric))
    if until is not None and until <= now:
        errors.append({"field": "until", "message": "The deadline is in the past. Enter a later deadline."})
    if errors:
        detail = " ".join(error["message"] for error in errors)
        raise Problem(422, "Impossible requirements", detail, kind="requirements-impossible", errors=errors)
    return window_of(None, until, now=now)


def _faults(requirements: Requirements, metric: str) -> Iterator[dict[str, Any]]:
    if not 1 <= requirements.items <= ITEMS_MAX:
        yield {"field": "items", "message": f"Enter a number of items from 1 to {ITEMS_MAX:,}."}
    if requirements.accuracy is not None and not 0 < requirements.accuracy < 1:
        yield {"field": "accuracy", "message": score_format_of(metric).range_sentence}
    if requirements.objective not in OBJECTIVES:
        yield {"field": "objective", "message": f"Choose one of {', '.join(OBJECTIVES)}."}
    for name in ("latency", "duration", "budget"):
        value = getattr(requirements, name)
        if value is not None and value <= 0:
            yield {"field": name, "message": f"Enter a {name} above zero, or leave it out."}


def _variants(
    subject: ModelVersion | Task, dims: dict[str, int] | None, klass: str, book: PriceBookDocument, window: Window
) -> VariantSet:
    instant = tariff_instant(book=book, price_class=book.price_class(klass), window=window)
    models = (
        candidate_models_of_task(subject) if isinstance(subject, Task) else candidate_models_of_version(subject, dims)
    )
    found = variants_collect(models=models, klass=klass, book=book, instant=instant)
    if not found.variants:
        detail = "All models of this task were deleted. Upload a model, or create a new task."
        raise Problem(409, "No model", detail, kind="model-missing")
    return found


def _class_check(klass: str, book: PriceBookDocument) -> None:
    names = sorted(one.name for one in classes_plannable(book))
    if klass in names:
        return
    if names:
        detail = f"Plans can't use class {klass[:40]!r}. Choose one of {', '.join(names)}."
    else:
        detail = (
            "Every class in the price book is limited to certain hours. Ask the administrator to add a class that runs at any "
            "hour."
        )
    raise Problem(422, "Class not offered", detail, kind="class-not-offered")


def _subject_json(task: Task | None, dims: dict[str, int] | None, revises: str) -> dict[str, Any]:
    return {
        "dims": dims or {},
        **({} if task is None else data_json(task)),
        **({"revises": revises} if revises else {}),
    }


def _name(subject: ModelVersion | Task) -> str:
    return subject.name if isinstance(subject, Task) else subject.model.name


@transaction.atomic
def alternatives_compile(
    *, version: ModelVersion, dims: dict[str, int] | None, actor: User, now: datetime
) -> list[CompileJob]:
    """Queue the missing compiles of a version and its alternatives, for every processor on offer.

    An alternative that can't accept the same items as the version is left out.
    """
    # The lock makes two clicks queue each compile once.
    Organisation.objects.select_for_update(no_key=True).get(pk=version.organisation.pk)
    return [
        job_create(version=one, target=target, dims=dict(sizes), actor=actor, now=now)
        for one, target, sizes in missing_programs(version=version, dims=dims)
    ]
