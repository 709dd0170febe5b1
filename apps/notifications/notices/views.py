"""The notifications page."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.access import organisation_get, principal_get
from apps.accounts.paging import page_of
from apps.notifications.models import Notice
from apps.notifications.notices.services import notices_read

PAGE_ROWS = 30


@require_GET
def notice_list(request: HttpRequest) -> HttpResponse:
    """Show the person's notices in the current organisation, newest first."""
    rows = Notice.objects.filter(organisation=organisation_get(request), user=principal_get(request).user)
    page = page_of(request, rows, ordering=("-created_at", "-id"), size=PAGE_ROWS)
    return render(request, "notifications/notices.html", {"page": page})


@require_POST
def notice_open(request: HttpRequest, pk: UUID) -> HttpResponse:
    """Mark a notice as read, and redirect to the linked page."""
    user, organisation = principal_get(request).user, organisation_get(request)
    notice = get_object_or_404(Notice, pk=pk, user=user, organisation=organisation)
    notices_read(organisation=organisation, user=user, now=timezone.now(), pk=pk)
    return redirect(notice.path)


@require_POST
def notices_read_all(request: HttpRequest) -> HttpResponse:
    """Mark all of the person's notices as read."""
    notices_read(organisation=organisation_get(request), user=principal_get(request).user, now=timezone.now())
    return redirect("notifications:notice_list")
