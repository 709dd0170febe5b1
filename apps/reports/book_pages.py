"""Import a price book from JSON, and show its effect before it is published."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from apps.accounts.access import platform_admin_check
from apps.accounts.models import User
from apps.accounts.problems import Problem
from apps.ledger.selectors import month_of
from apps.pricing.differences import rows_of
from apps.pricing.drafts import draft_create
from apps.pricing.models import PriceBook
from apps.pricing.selectors import book_in_force
from apps.pricing.services import pricebook_preview, pricebook_publish
from apps.reports.rerating_pages import rerating_begin

BYTES_MOST = 1_000_000


class BookForm(forms.Form):
    """A form to import a price book, as a file or as text, with its start time."""

    file = forms.FileField(
        required=False, label="Price book", help_text="JSON, as exported from a price book or a draft."
    )
    text = forms.CharField(
        required=False, widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false"}), label="Or its text"
    )
    effective_from = forms.DateTimeField(
        label="In force from (UTC)",
        input_formats=["%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"],
        widget=forms.DateTimeInput(attrs={"type": "datetime-local"}, format="%Y-%m-%dT%H:%M"),
    )

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        file, text = values.get("file"), str(values.get("text") or "")
        if file is not None and file.size > BYTES_MOST:
            self.add_error("file", f"The file is {file.size:,} bytes long; the maximum is {BYTES_MOST:,}.")
            return values
        try:
            text = file.read().decode() if file is not None else text
        except UnicodeDecodeError:
            self.add_error("file", "The file is not text in UTF-8. Export the price book again.")
            return values
        if not text.strip():
            self.add_error("file", "Choose a file, or enter its text below.")
            return values
        try:
            values["document"] = json.loads(text)
        except json.JSONDecodeError as fault:
            self.add_error(None, f"This is not JSON: {fault.msg} at line {fault.lineno}, column {fault.colno}.")
        except (ValueError, RecursionError):
            self.add_error(
                None, "This JSON cannot be read: it is nested too deeply, or it contains a number that is too long."
            )
        values["text"] = text
        return values


@require_http_methods(["GET", "POST"])
def book_new(request: HttpRequest) -> HttpResponse:
    """Show the import form. A POST previews the changes, stores a draft or publishes the book."""
    principal, now = platform_admin_check(request), timezone.now()
    current = book_in_force(at=now)
    notice = timedelta(days=int(current.document["notice_days"]), hours=1)
    form = BookForm(request.POST or None, request.FILES or None, initial={"effective_from": now + notice})
    context: dict[str, Any] = {"form": form, "current": current, "notice": notice - timedelta(hours=1)}
    if request.method == "POST" and form.is_valid() and not form.errors:
        try:
            done = _done(request, form, principal.user, now)
            if done is not None:
                return done
            context |= _preview(pricebook_preview(**_asked(form, now)), current, form, principal.user, now)
        except Problem as refusal:
            context["refusal"] = refusal
            context["faults"] = [one["message"] for one in refusal.errors or []]
    failed = form.errors or "refusal" in context
    return render(request, "pricing/new.html", context, status=422 if failed else 200)


def _done(request: HttpRequest, form: BookForm, user: User, now: datetime) -> HttpResponse | None:
    if request.POST.get("action") == "draft":
        draft = draft_create(document=form.cleaned_data["document"], actor=user, now=now)
        return redirect("reports:draft", pk=draft.pk, section="prices")
    if request.POST.get("action") == "publish":
        published = pricebook_publish(**_asked(form, now), actor=user)
        messages.success(request, f"Price book {published.version} is published.")
        return redirect("pricing:book")
    return None


def _asked(form: BookForm, now: datetime) -> dict[str, Any]:
    return {
        "document": form.cleaned_data["document"],
        "effective_from": form.cleaned_data["effective_from"],
        "now": now,
    }


def _preview(draft: PriceBook, current: PriceBook, form: BookForm, user: User, now: datetime) -> dict[str, Any]:
    last = PriceBook.objects.order_by("-version").first() or current
    this_month, _ = month_of(now)
    days = [(this_month - timedelta(days=1)).date(), this_month.date()]
    return {
        "draft": draft,
        "last": last,
        "differences": rows_of(last, draft),
        "reratings": [rerating_begin(draft, day, user) for day in days],
        "text": form.cleaned_data["text"],
        "effective_from": f"{form.cleaned_data['effective_from']:%Y-%m-%dT%H:%M}",
    }
