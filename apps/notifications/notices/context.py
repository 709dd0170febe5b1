"""The template context for the notification bell."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from apps.accounts.access import principal_get
from apps.notifications.models import Notice

UNREAD_MAX = 99


def bell(request: HttpRequest) -> dict[str, Any]:
    """Return the number of unread notices, at most UNREAD_MAX, as `unread`.

    Return an empty dictionary if nobody is signed in or there is no current organisation.
    """
    if not request.user.is_authenticated:
        return {}
    principal = principal_get(request)
    if principal.current is None:
        return {}
    rows = Notice.objects.filter(user=principal.user, organisation=principal.current, read_at=None)
    return {"unread": rows[:UNREAD_MAX].count()}
