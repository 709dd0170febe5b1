"""The views for jobs. A view checks permissions, makes one service call, and returns the response."""

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
from apps.accounts.models import Organisation
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.accounts.roles import ENGINEERING
from apps.accounts.unknown_filters import unknown_filter
from apps.dispatch import selectors, services
from apps.dispatch.api import arrays_of, outputs_response
from apps.dispatch.forms import JobForm
from apps.dispatch.models import Job, JobState
from apps.dispatch.progress import job_view
from apps.dispatch.promises import promises_of_job
from apps.dispatch.result import ADDED, job_result
from apps.dispatch.services.jobs import Inputs, Seeded
from apps.sales.models import Contract

PAGE = 25


@require_GET
def job_list(request: HttpRequest) -> HttpResponse:
    organisation = organisation_get(request)
    asked_state, asked_contract = request.GET.get("state", ""), request.GET.get("contract", "")
    state = asked_state if asked_state in JobState.values else ""
    contract = _uuid_text(asked_contract)
    unknown = []
    if asked_state and not state:
        unknown.append(unknown_filter("state", asked_state, rows="jobs", labels=JobState.labels))
    if asked_contract and not contract:
        unknown.append(unknown_filter("contract", asked_contract, rows="jobs"))
    rows = selectors.jobs_shown(organisation, state=state, contract=contract)
    context = {
        "page_obj": page_of(request, rows, ordering=("-submitted_at", "-id"), size=PAGE),
        "state": state,
        "contract": contract,
        "states": JobState.choices,
        "unknown": unknown,
        "has_contracts": selectors.contracts_left(organisation, now=timezone.now()).exists(),
    }
    return render(request, "dispatch/job_list.html", context)


@require_http_methods(["GET", "POST"])
def job_new(request: HttpRequest) -> HttpResponse:
    """The page to submit a job. POST submits the job."""
    organisation = organisation_get(request, roles=ENGINEERING)
    asked = (request.POST or request.GET).get("contract", "")
    offers = selectors.offers_open(organisation, now=timezone.now(), wanted=_uuid_text(asked.partition(":")[0]))
    chosen = _chosen(offers, asked)
    if chosen is None and asked and request.method == "GET":
        org_object_get(request, Contract, roles=ENGINEERING, pk=asked.partition(":")[0])  # 404 for another's contract
    choices = _choices(offers, chosen)
    posted = request.method == "POST"
    form = JobForm(
        request.POST if posted else None,
        request.FILES if posted else None,
        contracts=choices,
        initial={"contract": chosen or ""},
    )
    refusal: Problem | None = None
    if posted and form.is_valid():
        try:
            return redirect(_submit_once(request, form))
        except Problem as problem:
            refusal = problem
    context = {
        "form": form,
        "offers": offers,
        "has_ended": chosen is None,
        "more": _more(organisation, offers),
        **_refusal_context(refusal),
    }
    return render(request, "dispatch/job_new.html", context, status=_status(form, refusal))


def _status(form: JobForm, refusal: Problem | None) -> int:
    if refusal is not None:
        return refusal.status
    return 422 if form.errors else 200


def _choices(offers: Sequence[selectors.Offer], chosen: str | None) -> list[tuple[str, str]]:
    # If no contract is preselected, the first choice is a prompt.
    choices = [(one.key, one.choice) for one in offers]
    return choices if chosen is not None else [("", "Choose a contract"), *choices]


def _more(organisation: Organisation, offers: Sequence[selectors.Offer]) -> int:
    listed = {one.contract.pk for one in offers}
    return selectors.contracts_left(organisation, now=timezone.now()).count() - len(listed)


def _refusal_context(refusal: Problem | None) -> dict[str, Any]:
    faults = [error["message"] for error in refusal.errors if "message" in error] if refusal else []
    return {
        "refusal": refusal,
        "refusal_list": faults,
        "refusal_text": "" if faults or refusal is None else refusal.detail,
    }


def _chosen(offers: Sequence[selectors.Offer], asked: str) -> str | None:
    fitting = [one.key for one in offers if asked in {"", one.key, str(one.contract.pk)}]
    return next(iter(fitting), None)


def _submit_once(request: HttpRequest, form: JobForm) -> str:
    # If the same form was already sent, no second job is created.
    def make() -> str:
        return reverse("dispatch:job_detail", kwargs={"pk": _submit(request, form).pk})

    mark = form.cleaned_data["once"]
    location, is_new = form_once(request, str(mark), make) if mark else (make(), True)
    if not is_new:
        messages.info(request, "You already submitted this form. This page shows the job that the form created.")
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
        contract=contract,
        arrays=inputs,
        actor=principal_get(request).user,
        now=timezone.now(),
        wanted=wanted,
        name=form.cleaned_data["name"],
    )


@require_GET
def job_detail(request: HttpRequest, pk: UUID) -> HttpResponse:
    """The page of a job. For htmx requests, only the part that changes is rendered."""
    job = org_object_get(
        request, Job.objects.select_related("contract__pool", "contract__organisation", "submitted_by"), pk=pk
    )
    template = "dispatch/_job.html" if request.headers.get("HX-Request") else "dispatch/job_detail.html"
    now = timezone.now()
    view = job_view(job, now=now)
    context = {
        "view": view,
        "job": job,
        "promises": promises_of_job(job, now=now),
        "result": job_result(job, view.stages, item=request.GET.get("item", "").strip()),
        "added": ADDED,
    }
    return render(request, template, context)


@require_POST
def job_rename(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Set the name of a job."""
    job = org_object_get(request, Job, roles=ENGINEERING, pk=pk)
    try:
        services.job_rename(
            job_id=job.pk, name=request.POST.get("name", ""), actor=principal_get(request).user, now=timezone.now()
        )
    except Problem as refusal:
        messages.error(request, refusal.detail)
    else:
        messages.success(request, "Name saved.")
    return redirect("dispatch:job_detail", pk=pk)


@require_GET
def job_outputs(request: HttpRequest, pk: UUID) -> HttpResponseBase:
    return outputs_response(org_object_get(request, Job, pk=pk))


@require_POST
def job_labels(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Evaluate a finished job against the labels in a file."""
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
        messages.success(request, "The outputs were scored against these labels.")
    return redirect("dispatch:job_detail", pk=pk)


@require_POST
def job_cancel(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Cancel a job. A job that has already ended does not change."""
    job = org_object_get(request, Job, roles=ENGINEERING, pk=pk)
    try:
        services.job_cancel(job_id=job.pk, actor=principal_get(request).user, now=timezone.now())
    except Problem as refusal:
        messages.info(request, refusal.detail)
    else:
        messages.success(
            request,
            "The job is cancelled. Finished blocks are stored and billed. Unused capacity is available in the contract again.",
        )
    return redirect("dispatch:job_detail", pk=pk)


def _uuid_text(text: str) -> str:
    # An empty text filters nothing.
    try:
        return str(UUID(text))
    except ValueError:
        return ""
