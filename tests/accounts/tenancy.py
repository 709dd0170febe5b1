"""Who may open the people's pages."""

from __future__ import annotations

from typing import Any

from django.utils import timezone

from apps.accounts import services
from apps.accounts.access import principal_of_user
from apps.accounts.models import Membership
from apps.accounts.roles import OWNING, Role, Scope
from tests.cast import Cast
from tests.tenancy import operation, page


def an_invitation(cast: Cast) -> dict[str, Any]:
    made, _ = services.invitation_create(
        organisation=cast.organisation,
        email="new@example.com",
        role=Role.VIEWER,
        principal=principal_of_user(cast.owner, None),
        now=timezone.now(),
    )
    return {"pk": made.pk}


def an_invitation_link(cast: Cast) -> dict[str, Any]:
    _, secret = services.invitation_create(
        organisation=cast.organisation,
        email="new@example.com",
        role=Role.VIEWER,
        principal=principal_of_user(cast.owner, None),
        now=timezone.now(),
    )
    return {"secret": secret}


def a_member(cast: Cast) -> dict[str, Any]:
    return {"pk": Membership.objects.get(user=cast.viewer).pk}


def a_token(cast: Cast) -> dict[str, Any]:
    """The owner's own: others may revoke it only as owners."""
    made, _ = services.token_create(
        user=cast.owner, organisation=cast.organisation, name="build", scopes=[Scope.READ], now=timezone.now()
    )
    return {"pk": made.pk}


ROUTES = [
    page("/sign-up", "GET", "POST", public=True),
    page("/sign-in", "GET", "POST", public=True),
    page("/sign-out", "POST", signed_in=True),
    page("/invitations/<str:secret>", public=True, make=an_invitation_link),
    page("/settings/password", "GET", "POST", signed_in=True),
    page("/settings/organisation"),
    page("/settings/organisation", "POST", roles=OWNING, body={"name": "A", "time_zone": "UTC"}),
    page("/settings/invitations", "POST", roles=OWNING, body={"email": "a@example.com", "role": "viewer"}),
    page("/settings/invitations/<uuid:pk>/revoke", "POST", roles=OWNING, make=an_invitation),
    page("/settings/members/<uuid:pk>/role", "POST", roles=OWNING, make=a_member, body={"role": "billing"}),
    page("/settings/members/<uuid:pk>/remove", "POST", roles=OWNING, make=a_member),
    page("/settings/tokens", "GET", "POST"),
    page("/settings/tokens/<uuid:pk>/revoke", "POST", roles=OWNING, make=a_token),
    page("/settings/audit", roles=OWNING),
    page("/organisations/new", "GET", "POST", signed_in=True),
    page("/organisations/<uuid:pk>/switch", "POST", make=lambda cast: {"pk": cast.organisation.pk}),
    operation("GET /me", scope=None),
    operation("GET /members"),
    operation("GET /audit", roles=OWNING),
]
