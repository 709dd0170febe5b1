"""What every page shows of the bell."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest

from apps.accounts.access import principal_get
from apps.notifications.models import Notice

MOST = 99


def bell(request: HttpRequest) -> dict[str, Any]:
    """`unread`: how many notices of the current organisation the person has not read, at most MOST."""
    if not request.user.is_authenticated:
        return {}
    principal = principal_get(request)
    if principal.current is None:
        return {}
    rows = Notice.objects.filter(user=principal.user, organisation=principal.current, read_at=None)
    return {"unread": rows[:MOST].count()}
