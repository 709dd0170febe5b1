"""Submitting a job, watching it, fetching its outputs. Each view: fetch and authorise, one service call, one answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, BinaryIO, cast
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import org_object_get, organisation_get, principal_get
from apps.accounts.idempotency import form_once
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.accounts.roles import ENGINEERING
from apps.dispatch import selectors, services
from apps.dispatch.api import arrays_of, outputs_response
from apps.dispatch.forms import JobForm
from apps.dispatch.kept import promises_of_job
from apps.dispatch.models import Job, JobState
from apps.dispatch.services.jobs import Inputs, Seeded
from apps.sales.models import Contract

PAGE = 25


@require_GET
def job_list(request: HttpRequest) -> HttpResponse:
    organisation = organisation_get(request)
    state, contract = request.GET.get("state", ""), _uuid_text(request.GET.get("contract", ""))
    rows = selectors.jobs_shown(organisation, state=state, contract=contract)
    context = {
        "page_obj": page_of(request, rows, ordering=("-submitted_at", "-id"), size=PAGE),
        "state": state,
        "contract": contract,
        "states": JobState.choices,
        "has_contracts": selectors.contracts_left(organisation, now=timezone.now()).exists(),
    }
    return render(request, "dispatch/job_list.html", context)


@require_http_methods(["GET", "POST"])
def job_new(request: HttpRequest) -> HttpResponse:
    organisation = organisation_get(request, roles=ENGINEERING)
    now, asked = timezone.now(), (request.POST or request.GET).get("contract", "")
    offers = selectors.offers_open(organisation, now=now, wanted=_uuid_text(asked.partition(":")[0]))
    choices = [(one.key, f"{one.title} on {one.contract.pool.slug}, {one.left:,} left") for one in offers]
    chosen = _chosen(offers, asked)
    if chosen is None and asked and request.method == "GET":
        org_object_get(request, Contract, roles=ENGINEERING, pk=asked.partition(":")[0])  # of somebody else: not found
    if chosen is None:  # nothing is chosen then, least of all another contract
        choices.insert(0, ("", "Choose a contract"))
    form = JobForm(request.POST or None, request.FILES or None, contracts=choices, initial={"contract": chosen or ""})
    refusal: Problem | None = None
    if request.method == "POST" and form.is_valid():
        try:
            return redirect(_submit_once(request, form))
        except Problem as problem:
            refusal = problem
    context = {
        "form": form,
        "offers": offers,
        "is_over": chosen is None,
        "more": selectors.contracts_left(organisation, now=now).count() - len({one.contract.pk for one in offers}),
        **_refusal_shown(refusal),
    }
    return render(
        request, "dispatch/job_new.html", context, status=refusal.status if refusal else 422 if form.errors else 200
    )


def _refusal_shown(refusal: Problem | None) -> dict[str, Any]:
    """A refusal as the page says it: its faults one by one, or where it names none its sentence."""
    faults = [error["message"] for error in refusal.errors if "message" in error] if refusal else []
    return {
        "refusal": refusal,
        "refusal_list": faults,
        "refusal_text": "" if faults or refusal is None else refusal.detail,
    }


def _chosen(offers: Sequence[selectors.Offer], asked: str) -> str | None:
    """The key of the offer that the address asks for, or of the newest when it asks for none; None when what it asks for is
    not open."""
    fitting = [one.key for one in offers if asked in {"", one.key, str(one.contract.pk)}]
    return next(iter(fitting), None)


def _submit_once(request: HttpRequest, form: JobForm) -> str:
    """A second click, or the form sent again from the history, leads to the job that the first one made."""

    def make() -> str:
        return reverse("dispatch:job_detail", kwargs={"pk": _submit(request, form).pk})

    mark = form.cleaned_data["once"]
    location, is_new = form_once(request, str(mark), make) if mark else (make(), True)
    if not is_new:
        messages.info(request, "This form was sent before; this is the job that it made.")
    return location


def _submit(request: HttpRequest, form: JobForm) -> Job:
    contracts = Contract.objects.select_related("pool")
    key, _, program = form.cleaned_data["contract"].partition(":")
    contract = org_object_get(request, contracts, roles=ENGINEERING, pk=key)
    wanted = UUID(program) if program else None
    if form.cleaned_data["inputs"]:
        inputs: Inputs | Seeded = arrays_of(form.cleaned_data["inputs"], contract, wanted)
    else:
        inputs = Seeded(form.cleaned_data["sample_items"])
    return services.job_create(
        contract=contract, arrays=inputs, actor=principal_get(request).user, now=timezone.now(), wanted=wanted
    )


@require_GET
def job_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The page; asked for by htmx, only the part that changes."""
    job = org_object_get(
        request, Job.objects.select_related("contract__pool", "contract__organisation", "submitted_by"), pk=pk
    )
    template = "dispatch/_job.html" if request.headers.get("HX-Request") else "dispatch/job_detail.html"
    now = timezone.now()
    context = {"view": selectors.job_view(job, now=now), "job": job, "promises": promises_of_job(job, now=now)}
    return render(request, template, context)


@require_GET
def job_outputs(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    return outputs_response(org_object_get(request, Job, pk=pk))


@require_POST
def job_labels(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Labels for a finished job's items."""
    job = org_object_get(request, Job.objects.select_related("contract"), roles=ENGINEERING, pk=pk)
    file = request.FILES.get("labels")
    try:
        if file is None:
            raise Problem(422, "No file", "Choose a file of labels: .npz, .npy or CSV.", kind="labels-invalid")
        services.job_labels_add(
            job=job,
            file=cast("BinaryIO", file.file),
            size=file.size or 0,
            actor=principal_get(request).user,
            now=timezone.now(),
        )
    except Problem as refusal:
        messages.error(request, refusal.detail)
    else:
        messages.success(request, "The answers were judged by these labels.")
    return redirect("dispatch:job_detail", pk=pk)


@require_POST
def job_cancel(request: HttpRequest, pk: UUID) -> HttpResponse:
    job = org_object_get(request, Job, roles=ENGINEERING, pk=pk)
    services.job_cancel(job_id=job.pk, actor=principal_get(request).user, now=timezone.now())
    messages.success(
        request, "The job is cancelled. What was done is kept and billed; the rest is back in the contract."
    )
    return redirect("dispatch:job_detail", pk=pk)


def _uuid_text(text: str) -> str:
    """The text when it is a UUID, else nothing: a filter that means nothing filters nothing."""
    try:
        return str(UUID(text))
    except ValueError:
        return ""
