"""Visitors: people without an account who explore the organisation with the sample data.

A visit is only a signed cookie, with no session and no database row, so strangers cannot fill the database. A visitor
can read only the pages in `READABLE` and `READABLE_ROOMS`, with the viewer role.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase
from django.core import signing
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from apps.accounts.access import Principal
from apps.accounts.models import Membership, Organisation, User
from apps.accounts.rates import Rate
from apps.accounts.roles import Role

COOKIE, SALT = "takt_visit", "demo.visit"
LASTS = timedelta(hours=2)
EMAIL, NAME = "visitor@demo.example", "Visitor"
VISITS = Rate("demo visit", 20, 3600)
PAGES = Rate("demo page", 120, 60)

# Pages of customers by the name of their address: whole rooms, and single pages of rooms that hold other things too.
READABLE_ROOMS = frozenset(
    {"compilation", "dispatch", "fleet", "invoicing", "planner", "portal", "pricing", "registry", "sales"}
)
READABLE = frozenset(
    {"home", "program", "program_compare", "program_timeline", "program_graph", "program_download"}
    | {"docs", "doc", "problem_type", "search", "search_palette", "notifications:budget_list"}
)
READING = frozenset({"GET", "HEAD", "OPTIONS"})


class NoSession(SessionBase):
    """A session that stores nothing, for visits."""

    def __init__(self) -> None:
        super().__init__(None)
        self._session_cache: dict[str, object] = {}

    def __setattr__(self, name: str, value: object) -> None:
        # The session is never marked as accessed or modified, so no session cookie is set.
        super().__setattr__(name, False if name in {"accessed", "modified"} else value)

    def exists(self, session_key: str) -> bool:
        return False

    def create(self) -> None:
        """Do nothing."""

    def save(self, must_create: bool = False) -> None:
        """Do nothing."""

    def delete(self, session_key: str | None = None) -> None:
        """Do nothing."""

    def load(self) -> dict[str, object]:
        return {}


def visitor_make(*, organisation: Organisation, now: datetime) -> User:
    """Create the account that all visitors share, with the viewer role. The account is inactive and has no password."""
    with transaction.atomic():
        user = User.objects.filter(email=EMAIL).first()
        if user is None:
            user = User(email=EMAIL, name=NAME, is_active=False, created_at=now)
            user.set_unusable_password()
            user.save(force_insert=True)
        given = {"role": Role.VIEWER, "created_at": now}
        Membership.objects.get_or_create(user=user, organisation=organisation, defaults=given)
    return user


def visit_open() -> bool:
    """Whether visits are switched on and sample data exists."""
    return settings.DEMO_VISITORS and _membership() is not None


def visitor_of(request: HttpRequest) -> Principal | None:
    """Return the visitor identified by the request's cookie; None if there is no valid visit."""
    if not settings.DEMO_VISITORS or COOKIE not in request.COOKIES:
        return None
    try:
        signing.loads(request.COOKIES[COOKIE], salt=SALT, max_age=LASTS)
    except signing.BadSignature:
        return None
    found = _membership()
    if found is None:
        return None
    return Principal(user=found.user, memberships={found.organisation_id: Role.VIEWER}, current=found.organisation_id)


def visit_begin(response: HttpResponse) -> None:
    """Begin a visit by setting the signed cookie."""
    response.set_cookie(
        COOKIE,
        signing.dumps("visit", salt=SALT),
        max_age=int(LASTS.total_seconds()),
        httponly=True,
        secure=settings.SESSION_COOKIE_SECURE,
        samesite="Lax",
    )


def _membership() -> Membership | None:
    # Removing this membership ends all visits.
    rows = Membership.objects.filter(user__email=EMAIL, user__is_platform_admin=False)
    return rows.filter(organisation__sample_until__isnull=False).select_related("user").order_by("created_at").first()
