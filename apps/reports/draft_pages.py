"""Pages for administrators to draft price books."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from apps.accounts.access import platform_admin_required, principal_get
from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.ledger.selectors import month_of
from apps.pricing import drafts
from apps.pricing.differences import rows_of
from apps.pricing.draft_forms import ClassesForm, PricesForm, SectionForm, sentence_of
from apps.pricing.draft_hours import HoursForm
from apps.pricing.draft_terms import TermsForm
from apps.pricing.models import DraftState, PriceBook, PriceBookDraft
from apps.pricing.selectors import book_in_force
from apps.reports.models import Rerating
from apps.reports.rerating_pages import rerating_begin, shown

SECTIONS: dict[str, type[SectionForm]] = {
    "prices": PricesForm,
    "classes": ClassesForm,
    "hours": HoursForm,
    "terms": TermsForm,
}
CLOSED_SHOWN = 20
HOUR = timedelta(hours=1)


class PublishForm(forms.Form):
    """A form for the start time of the next price book."""

    effective_from = forms.DateTimeField(
        label="In force from (UTC)",
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
        error_messages={"invalid": "Enter a date and a time, such as 2027-01-01 00:00."},
    )


@require_http_methods(["GET", "POST"])
@platform_admin_required
def draft_list(request: HttpRequest) -> HttpResponse:
    """Show all drafts; a POST starts a new draft."""
    if request.method == "POST":
        try:
            draft = drafts.draft_create(actor=principal_get(request).user, now=timezone.now())
        except Problem as refusal:
            messages.error(request, refusal.detail)
            return redirect("reports:draft_list")
        return redirect("reports:draft", pk=draft.pk, section="prices")
    rows = PriceBookDraft.objects.select_related("created_by", "saved_by", "book").defer("document")
    context = {
        "opened": rows.filter(state=DraftState.OPEN),
        "closed": rows.exclude(state=DraftState.OPEN)[:CLOSED_SHOWN],
        "last": PriceBook.objects.order_by("-version").first(),
    }
    return render(request, "pricing/draft_list.html", context)


@require_http_methods(["GET", "POST"])
@platform_admin_required
def draft_section(request: HttpRequest, pk: UUID, section: str) -> HttpResponse:
    """Edit one section of a draft; a POST saves the section."""
    if section not in SECTIONS:
        raise Http404
    draft = get_object_or_404(PriceBookDraft, pk=pk)
    if not draft.is_open:
        return _closed(request, draft)
    refusal: Problem | None = None
    form = SECTIONS[section](draft.document, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        user, now = principal_get(request).user, timezone.now()
        try:
            draft = drafts.draft_save(pk=pk, document=form.written(), revision=_revision(request), actor=user, now=now)
        except Problem as problem:
            refusal = problem
        else:
            return _saved(request, draft, section, user)
    context = {**_frame(draft, section), "form": form, "refusal": refusal, "revision": _shown_revision(request, draft)}
    context["others"] = [sentence_of(fault) for fault in form.faults_show(drafts.draft_faults(draft.document))]
    status = 409 if refusal else 422 if request.method == "POST" else 200
    return render(request, f"pricing/draft_{section}.html", context, status=status)


def _saved(request: HttpRequest, draft: PriceBookDraft, section: str, user: User) -> HttpResponse:
    if request.POST.get("action") == "review":
        effects_begin(draft, user=user, now=timezone.now())
        return redirect("reports:draft_review", pk=draft.pk)
    messages.success(request, "Saved.")
    fragment = "#grids" if request.POST.get("action") == "fill" else ""
    return redirect(reverse("reports:draft", args=[draft.pk, section]) + fragment)


@require_http_methods(["GET", "POST"])
@platform_admin_required
def draft_review(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Show the changes in a draft and their effect on last month. A POST with `action=publish` publishes the draft; any
    other POST starts computing the effect.
    """
    draft = get_object_or_404(PriceBookDraft.objects.select_related("book"), pk=pk)
    now, user = timezone.now(), principal_get(request).user
    if not draft.is_open:
        return _closed(request, draft)
    if request.method == "POST" and request.POST.get("action") != "publish":
        effects_begin(draft, user=user, now=now)
        return redirect("reports:draft_review", pk=pk)
    last = drafts.book_last()
    notice = timedelta(days=int(last.document["notice_days"]))
    starts = max(now, last.effective_from) + notice + HOUR
    form = PublishForm(request.POST or None, initial={"effective_from": starts})
    refusal: Problem | None = None
    if request.method == "POST" and form.is_valid():
        try:
            return _published(request, draft, form.cleaned_data["effective_from"], user, now)
        except Problem as problem:
            refusal = problem
    context = {
        **_frame(draft, "review"),
        "form": form,
        "refusal": refusal,
        "revision": draft.revision,
        "last": last,
        "last_label": str(last.version),
        "in_force": book_in_force(at=now),
        "next_version": last.version + 1,
        "notice": notice,
        "rows": rows_of(last, PriceBook(document=draft.document)),
        "faults": [sentence_of(fault) for fault in drafts.draft_faults(draft.document)],
        "effects": [shown(one) for one in effects_of(draft, now=now)],
    }
    status = refusal.status if refusal else 422 if request.method == "POST" else 200
    return render(request, "pricing/draft_review.html", context, status=status)


def _published(
    request: HttpRequest, draft: PriceBookDraft, effective_from: datetime, user: User, now: datetime
) -> HttpResponse:
    done = drafts.draft_publish(
        pk=draft.pk, revision=_revision(request), effective_from=effective_from, actor=user, now=now
    )
    return _closed(request, done)


def _closed(request: HttpRequest, draft: PriceBookDraft) -> HttpResponse:
    if draft.book is not None:
        start = f"{draft.book.effective_from:%Y-%m-%d %H:%M}"
        messages.success(
            request, f"Price book {draft.book.version} is published. The price book is in force from {start} UTC."
        )
        return redirect("pricing:book")
    messages.info(request, "This draft was discarded. Start a new draft to change prices.")
    return redirect("reports:draft_list")


@require_POST
@platform_admin_required
def draft_discard(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Discard a draft."""
    get_object_or_404(PriceBookDraft, pk=pk)
    try:
        drafts.draft_discard(pk=pk, actor=principal_get(request).user, now=timezone.now())
    except Problem as refusal:
        messages.error(request, refusal.detail)
    else:
        messages.success(request, "The draft was discarded.")
    return redirect("reports:draft_list")


@require_GET
@platform_admin_required
def draft_json(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Return the draft's document as a JSON file."""
    draft = get_object_or_404(PriceBookDraft, pk=pk)
    text = json.dumps(draft.document, indent=1, ensure_ascii=False) + "\n"
    response = HttpResponse(text, content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="price-book-{draft.document["version"]}-draft.json"'
    return response


def months_of(now: datetime) -> list[datetime]:
    """Return the first instants (UTC) of last month and this month."""
    this_month, _ = month_of(now)
    last_month, _ = month_of(this_month - timedelta(days=1))
    return [last_month, this_month]


def effects_of(draft: PriceBookDraft, *, now: datetime) -> list[Rerating]:
    """Return the newest re-ratings of last month and this month that use this version of the draft."""
    document = drafts.document_next(draft)
    rows = Rerating.objects.filter(document=document).order_by("-asked_at")
    found = [rows.filter(start=start).first() for start in months_of(now)]
    return [one for one in found if one is not None]


def effects_begin(draft: PriceBookDraft, *, user: User | None, now: datetime) -> None:
    """Start re-ratings of last month and this month with the draft. Do nothing if the re-ratings exist or the draft has
    faults.
    """
    if drafts.draft_faults(draft.document):
        return
    with transaction.atomic():
        PriceBookDraft.objects.select_for_update(of=("self",)).get(pk=draft.pk)
        if effects_of(draft, now=now):
            return
        document = drafts.document_next(draft)
        book = PriceBook(version=document["version"], document=document, currency=document["currency"]["code"])
        for start in months_of(now):
            rerating_begin(book, start.date(), user)


def _revision(request: HttpRequest) -> int:
    text = request.POST.get("revision", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _shown_revision(request: HttpRequest, draft: PriceBookDraft) -> int:
    return _revision(request) if request.method == "POST" else draft.revision


def _frame(draft: PriceBookDraft, current: str) -> dict[str, Any]:
    tabs = [(reverse("reports:draft", args=[draft.pk, name]), form.title) for name, form in SECTIONS.items()]
    tabs.append((reverse("reports:draft_review", args=[draft.pk]), "Review and publish"))
    title = SECTIONS[current].title if current in SECTIONS else "Review and publish"
    return {"draft": draft, "tabs": tabs, "current": title, "currency": draft.document["currency"]["code"]}
