"""Who may open the people's pages."""

from __future__ import annotations

from typing import Any

from allauth.account.utils import user_pk_to_url_str
from allauth.mfa.models import Authenticator
from allauth.usersessions.models import UserSession
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


def a_used_reset_link(cast: Cast) -> dict[str, Any]:
    return {"uidb36": user_pk_to_url_str(cast.owner), "key": "used-up"}


def a_passkey(cast: Cast) -> dict[str, Any]:
    made = Authenticator.objects.create(user=cast.owner, type=Authenticator.Type.WEBAUTHN, data={"name": "Passkey"})
    return {"pk": made.pk}


def a_session(cast: Cast) -> dict[str, Any]:
    made = UserSession.objects.create(user=cast.owner, session_key="elsewhere", ip="192.0.2.1", user_agent="Browser")
    return {"pk": made.pk}


ROUTES = [
    page("/mail", public=True),
    page("/sign-up", "GET", "POST", public=True),
    page("/sign-in", "GET", "POST", public=True),
    page("/sign-in/closed", public=True),
    page("/sign-in/code", "GET", "POST", step=True),
    page("/sign-in/passkey", "GET", "POST", step=True),
    page("/confirm-email", public=True),
    page("/confirm-email", "POST", step=True),
    page("/confirm-email/<str:key>", public=True, make=lambda _: {"key": "unknown"}),
    page("/password/reset", "GET", public=True),
    page("/password/reset/sent", public=True),
    page("/password/reset/done", public=True),
    page("/password/reset/<str:uidb36>/<str:key>", "GET", "POST", public=True, make=a_used_reset_link),
    page("/sign-out", "POST", signed_in=True),
    page("/invitations/<str:secret>", public=True, make=an_invitation_link),
    page("/settings/account", "GET", "POST", signed_in=True),
    page("/settings/account/delete", "GET", "POST", signed_in=True),
    page("/settings/email", "GET", "POST", signed_in=True),
    page("/settings/password", "GET", "POST", signed_in=True),
    page("/settings/password/first", "GET", "POST", signed_in=True),
    page("/settings/confirm", "GET", "POST", signed_in=True),
    page("/settings/confirm/code", "GET", "POST", signed_in=True),
    page("/settings/confirm/passkey", "GET", "POST", signed_in=True),
    page("/settings/two-factor", signed_in=True),
    page("/settings/two-factor/app", "GET", "POST", signed_in=True),
    page("/settings/two-factor/app/remove", "GET", "POST", signed_in=True),
    page("/settings/two-factor/recovery", signed_in=True),
    page("/settings/two-factor/recovery/new", "GET", "POST", signed_in=True),
    page("/settings/passkeys", signed_in=True),
    page("/settings/passkeys/new", "GET", "POST", signed_in=True),
    page("/settings/passkeys/<int:pk>/remove", "GET", "POST", signed_in=True, make=a_passkey),
    page("/settings/sessions", "GET", "POST", signed_in=True),
    page("/settings/sessions/<int:pk>/end", "POST", own=True, make=a_session),
    page("/settings/organisation/leave", "POST"),
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
