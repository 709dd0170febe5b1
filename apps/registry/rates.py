"""Limits on the number of uploads by account and by client address."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest

from apps.accounts.access import principal_get
from apps.accounts.rates import Rate, client_key, rate_take

HOUR = 3600


def uploads_take(request: HttpRequest) -> None:
    """Count an upload against the limits of the account and of the client address. Raises Problem(429) if a limit is
    exceeded.
    """
    rate_take(Rate("uploads-address", settings.UPLOADS_PER_HOUR_ADDRESS, HOUR), client_key(request))
    rate_take(Rate("uploads-account", settings.UPLOADS_PER_HOUR, HOUR), str(principal_get(request).user.pk))
