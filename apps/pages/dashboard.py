"""The overview page of a member."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse

from apps.accounts.models import Organisation
from apps.accounts.problems import Problem
from apps.compilation.models import CompileJob, Program
from apps.dispatch.models import FINAL, JobState
from apps.dispatch.selectors import jobs_of, jobs_shown
from apps.invoicing.models import Invoice
from apps.ledger.selectors import Spending, spending_of_all
from apps.pricing.selectors import book_in_force
from apps.registry.models import Model
from apps.registry.selectors import models_list
from apps.sales.selectors import contracts_of, contracts_open, quotes_of

RECENT = 5


@dataclass(frozen=True)
class Step:
    """A step on the way from a model to an invoice."""

    title: str
    text: str
    url: str
    is_done: bool
    is_next: bool = False


def dashboard(organisation: Organisation, *, now: datetime) -> dict[str, Any]:
    """Return the template context of the overview page."""
    models = models_list(organisation=organisation)
    steps = _steps(organisation, has_model=models.exists())
    return {
        "now": now,
        "steps": steps,
        "is_new": not all(step.is_done for step in steps),
        "spending": _spending(organisation, now),
        "model_count": models.count(),
        "open_contracts": contracts_open(organisation, now=now).count(),
        "open_jobs": jobs_of(organisation).exclude(state__in=FINAL).count(),
        "models": _recent_models(organisation),
        "compiling": CompileJob.objects.filter(organisation=organisation, state__in=["queued", "running"])
        .select_related("model_version__model")
        .order_by("-created_at")[:RECENT],
        "jobs": jobs_shown(organisation)[:RECENT],
        "contracts": contracts_of(organisation)[:RECENT],
    }


def _spending(organisation: Organisation, now: datetime) -> list[Spending]:
    try:
        book = book_in_force(at=now)
    except Problem:
        return []
    return spending_of_all(organisation_id=organisation.pk, first=book.currency, now=now)


def _recent_models(organisation: Organisation) -> list[Model]:
    newest = models_list(organisation=organisation).order_by("-created_at")
    return list(newest[:RECENT])


def _steps(organisation: Organisation, *, has_model: bool) -> list[Step]:
    done_job = jobs_of(organisation, state=JobState.DONE).exists()
    steps = [
        ("Upload a model", "An ONNX file or a sample.", "registry:model_upload", has_model),
        (
            "Compile it",
            "See every operation, byte and cycle before it runs.",
            "registry:model_list",
            Program.objects.filter(organisation=organisation).exists(),
        ),
        (
            "Get a quote",
            "Choose volume, class and time window; see every line's price.",
            "sales:quote_new",
            quotes_of(organisation).exists(),
        ),
        (
            "Accept it",
            "Reserve the capacity and the amount in one step.",
            "sales:quote_list",
            contracts_of(organisation).exists(),
        ),
        ("Run a job", "Runs the compiled binary in your reserved windows.", "dispatch:job_new", done_job),
        (
            "Read the invoice",
            "Compare quoted and actual amounts.",
            "portal:portal",
            Invoice.objects.filter(organisation=organisation).exists(),
        ),
    ]
    next_place = next((place for place, step in enumerate(steps) if not step[3]), None)
    return [
        Step(title, text, reverse(route), is_done, is_next=place == next_place)
        for place, (title, text, route, is_done) in enumerate(steps)
    ]
