"""The pages on which platform administrators change the fleet. Each change is one edit of the fleet's document."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import platform_admin_required, principal_get
from apps.accounts.paging import page_of
from apps.accounts.problems import Problem
from apps.dispatch.fleet import edits, fleet_apply, fleet_edit, fleet_undo
from apps.dispatch.fleet.applying import Edit, change_last
from apps.dispatch.fleet.differences import SHOWN, PageTexts, difference_page
from apps.dispatch.fleet.forms import CostForm, DevicesForm, NewPoolForm, NewSiteForm, PoolForm, SiteForm
from apps.fleet.current import document_now, document_parse, document_stored
from apps.fleet.document import LARGEST, difference, write
from apps.fleet.models import Device, FleetChange
from compiler import ModelError, targets

PER_PAGE = 25
RETIRED = "retired"  # the value that the page sends for a device to retire


def _edited(request: HttpRequest, edit: Edit, note: str) -> bool:
    try:
        change = fleet_edit(edit=edit, actor=principal_get(request).user, now=timezone.now(), note=note)
    except Problem as refusal:
        messages.error(request, refusal.detail)
        return False
    messages.success(request, change.summary if change else "No changes to apply.")
    return True


@require_POST
@platform_admin_required
def device_state(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Change the state of a device, or retire the device."""
    device = get_object_or_404(Device.objects.select_related("pool"), pk=pk, owned_until__isnull=True)
    state = request.POST.get("state", "")
    edit = edits.device_set(device.pool.slug, device.name, None if state == RETIRED else state)
    _edited(request, edit, "page")
    return redirect("fleet:fleet")


@require_POST
@platform_admin_required
def devices_add(request: HttpRequest, slug: str) -> HttpResponse:
    """Add devices to a pool."""
    form = DevicesForm(request.POST)
    if form.is_valid():
        _edited(request, edits.devices_add(slug, form.cleaned_data["count"], form.cleaned_data["state"]), "page")
    else:
        messages.error(request, "Enter the number of devices to add (at least 1) and choose their state.")
    return redirect("fleet:fleet")


@require_POST
@platform_admin_required
def processor(request: HttpRequest) -> HttpResponse:
    """Offer the processor in an uploaded file, or stop offering the processor named by `remove`."""
    name = request.POST.get("remove", "")
    try:
        edit = edits.processor_remove(name) if name else _processor_read(_uploaded(request))
    except Problem as refusal:
        messages.error(request, refusal.detail)
    else:
        _edited(request, edit, "page")
    return redirect("fleet:fleet")


def _processor_read(data: bytes) -> Edit:
    try:
        text = data.decode("utf-8")
        return edits.processor_set(targets.parse(text).name, text)
    except (UnicodeDecodeError, ModelError) as error:
        raise Problem(422, "Not a processor file", f"{str(error).rstrip('.')}.", kind="processor-file") from error


@require_http_methods(["GET", "POST"])
@platform_admin_required
def pool_new(request: HttpRequest) -> HttpResponse:
    """The page to create a pool with its first devices."""
    form = NewPoolForm(request.POST or None, document=document_now())
    if request.method == "POST" and form.is_valid():
        facts = form.facts()
        slug = facts.pop("slug")
        if _edited(request, _unless_known("pools", slug, edits.pool_set(slug, facts)), "page"):
            return redirect("fleet:fleet")
    return render(request, "fleet/pool_new.html", {"form": form}, status=422 if request.method == "POST" else 200)


@require_http_methods(["GET", "POST"])
@platform_admin_required
def pool_edit(request: HttpRequest, slug: str) -> HttpResponse:
    """The page to change a pool's facts and costs. `action` names the submitted form."""
    document = document_now()
    if slug not in document.pools:
        raise Http404
    pool, action = document.pools[slug], request.POST.get("action", "")
    form = PoolForm(request.POST if action == "pool" else None, document=document, pool=pool)
    cost = CostForm(request.POST if action == "cost" else None)
    edit = _pool_edit(slug, action, form, cost)
    if edit is not None and _edited(request, edit, "page"):
        return redirect("fleet:fleet") if action == "remove" else redirect("dispatch:fleet_pool", slug)
    context = {"slug": slug, "pool": pool, "form": form, "cost": cost}
    return render(request, "fleet/pool_edit.html", context, status=422 if action else 200)


def _pool_edit(slug: str, action: str, form: PoolForm, cost: CostForm) -> Edit | None:
    if action == "remove":
        return edits.pool_remove(slug)
    if action == "cost" and cost.is_valid():
        return edits.cost_set(slug, cost.facts())
    if action == "pool" and form.is_valid():
        return edits.pool_set(slug, form.facts())
    return None


@require_http_methods(["GET", "POST"])
@platform_admin_required
def site_new(request: HttpRequest) -> HttpResponse:
    """The page to create a site."""
    form = NewSiteForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        facts = dict(form.cleaned_data)
        slug = facts.pop("slug")
        if _edited(request, _unless_known("sites", slug, edits.site_set(slug, facts)), "page"):
            return redirect("fleet:fleet")
    return render(request, "fleet/site.html", {"form": form}, status=422 if request.method == "POST" else 200)


@require_http_methods(["GET", "POST"])
@platform_admin_required
def site_edit(request: HttpRequest, slug: str) -> HttpResponse:
    """The page to change a site's name and time zone, or to remove a site without pools."""
    site, action = document_now().sites.get(slug), request.POST.get("action", "")
    if site is None:
        raise Http404
    form = SiteForm(request.POST if action == "site" else None, initial=site.to_json())
    edit: Edit | None = None
    if action == "remove":
        edit = edits.site_remove(slug)
    elif action == "site" and form.is_valid():
        edit = edits.site_set(slug, form.cleaned_data)
    if edit is not None and _edited(request, edit, "page"):
        return redirect("fleet:fleet")
    return render(request, "fleet/site.html", {"slug": slug, "form": form}, status=422 if action else 200)


def _unless_known(section: str, slug: str, edit: Edit) -> Edit:
    def checked(raw: edits.Raw) -> None:
        if slug in raw[section]:
            raise Problem(
                409, "Name in use", f"There is already a {section[:-1]} {slug}. Choose another name.", kind="name-taken"
            )
        edit(raw)

    return checked


@require_http_methods(["GET", "POST"])
@platform_admin_required
def fleet_file(request: HttpRequest) -> HttpResponse:
    """GET: download the current fleet as a file. POST: show the effect of applying an uploaded file."""
    if request.method == "GET":
        response = HttpResponse(write(document_now()), content_type="application/toml; charset=utf-8")
        response["Content-Disposition"] = 'attachment; filename="fleet.toml"'
        return response
    shown = PageTexts("Changes in the file", reverse("fleet:fleet"), "Fleet", "file")
    return difference_page(request, lambda: document_parse(_uploaded(request)), shown)


def _uploaded(request: HttpRequest) -> bytes:
    file = request.FILES.get("file")
    if not isinstance(file, UploadedFile):
        raise Problem(422, "No file", "Choose a TOML file first.", kind="fleet-file")
    data: bytes = file.read(LARGEST + 1)
    return data


@require_POST
@platform_admin_required
def fleet_apply_file(request: HttpRequest) -> HttpResponse:
    """Apply the previewed file, unless the fleet has changed since the preview."""
    return _done(request, lambda: _apply(request))


@require_POST
@platform_admin_required
def change_undo(request: HttpRequest) -> HttpResponse:
    """Undo the last change, unless the fleet has changed since the page was opened."""
    return _done(request, lambda: _undo(request))


def _done(request: HttpRequest, work: Callable[[], str]) -> HttpResponse:
    try:
        messages.success(request, work())
    except Problem as refusal:
        messages.error(request, refusal.detail)
    return redirect("dispatch:fleet_changes")


def _apply(request: HttpRequest) -> str:
    document = document_parse(request.POST.get("text", ""))
    change = fleet_apply(
        document=document,
        expected=request.POST.get("digest", ""),
        actor=principal_get(request).user,
        now=timezone.now(),
        note=request.POST.get("note", "file").replace("\x00", ""),
    )
    return change.summary if change else "The fleet already matches this file. Nothing changed."


def _undo(request: HttpRequest) -> str:
    change = fleet_undo(expected=request.POST.get("digest", ""), actor=principal_get(request).user, now=timezone.now())
    return f"Undone: {change.summary}"


@require_GET
@platform_admin_required
def change_list(request: HttpRequest) -> HttpResponse:
    """The page of all changes to the fleet, newest first."""
    rows = FleetChange.objects.select_related("actor", "undone_by")
    page = page_of(request, rows, ordering=("-id",), size=PER_PAGE)
    return render(request, "fleet/change_list.html", {"page": page, "last": change_last()})


@require_GET
@platform_admin_required
def change_detail(request: HttpRequest, pk: int) -> HttpResponse:
    """The page of one change to the fleet."""
    change = get_object_or_404(FleetChange.objects.select_related("actor", "undone_by"), pk=pk)
    changes = difference(document_stored(change.before), document_stored(change.after)).changes
    context = {"change": change, "changes": changes[:SHOWN], "more": len(changes) - SHOWN}
    return render(request, "fleet/change.html", context)
