"""Declares who may call an API operation: `auth=requires(Scope.BUILD, roles=ENGINEERING)`."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.utils import timezone
from ninja.security import APIKeyCookie, HttpBearer

from apps.accounts.access import Principal, principal_get
from apps.accounts.models import ApiToken, Membership, User
from apps.accounts.rates import Rate, rate_take
from apps.accounts.roles import ANY_ROLE, Role, Scope

LAST_USED_EVERY = timedelta(minutes=1)


def token_digest(secret: str) -> str:
    """Return the SHA-256 digest of a token."""
    return hashlib.sha256(secret.encode()).hexdigest()


def principal_of_token(secret: str, *, now: datetime) -> Principal | None:
    """Return the principal of a token; None if the token is not valid or its creator is no longer a member."""
    token = ApiToken.objects.select_related("user").filter(digest=token_digest(secret)).first()
    if token is None or not token.is_valid(now=now) or not token.user.is_active:
        return None
    memberships: dict[Any, Role] = {}
    if token.organisation_id is not None:
        row = Membership.objects.filter(user=token.user, organisation=token.organisation_id).first()
        if row is None:
            return None
        memberships = {row.organisation_id: Role(row.role)}
    if token.last_used_at is None or now - token.last_used_at > LAST_USED_EVERY:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    scopes = frozenset(Scope(scope) for scope in token.scopes)
    return Principal(token.user, memberships, token.organisation_id, scopes, token)


def _permit(principal: Principal, scope: Scope | None, roles: frozenset[Role]) -> Principal:
    # For administrator operations, everyone else gets a 404, so that the operation stays hidden.
    if scope is None:
        return principal
    if scope is Scope.ADMIN:
        if not principal.is_platform_admin:
            raise Http404
        return principal
    if principal.scopes is not None and scope not in principal.scopes:
        raise PermissionDenied(f"This token lacks the scope '{scope.value}'.")
    role = principal.memberships.get(principal.current) if principal.current else None
    if role is None:
        raise PermissionDenied("Only members of an organisation can do this.")
    if role not in roles:
        wanted = ", ".join(sorted(known.label.lower() for known in roles))
        raise PermissionDenied(
            f"Your role is {role.label.lower()}, but this action requires one of these roles: {wanted}."
        )
    return principal


class BearerToken(HttpBearer):
    """Authentication with an API token in the Authorization header."""

    def __init__(self, scope: Scope | None = Scope.READ, roles: frozenset[Role] = ANY_ROLE) -> None:
        super().__init__()
        self.scope, self.roles = scope, roles

    def authenticate(self, request: HttpRequest, token: str) -> Principal | None:
        principal = principal_of_token(token, now=timezone.now())
        return _permit(_counted(principal), self.scope, self.roles) if principal else None


class BrowserSession(APIKeyCookie):
    """Authentication with the browser session, including the CSRF check."""

    param_name = "sessionid"

    def __init__(self, scope: Scope | None = Scope.READ, roles: frozenset[Role] = ANY_ROLE) -> None:
        super().__init__(csrf=True)
        self.scope, self.roles = scope, roles

    def __call__(self, request: HttpRequest) -> Principal | None:
        # An anonymous request is 401 whatever its method; CSRF is asked only of a session.
        if not isinstance(request.user, User):
            return None
        result: Principal | None = super().__call__(request)
        return result

    def authenticate(self, request: HttpRequest, key: str | None) -> Principal | None:
        return _permit(_counted(principal_get(request)), self.scope, self.roles)


def _counted(principal: Principal) -> Principal:
    rate_take(Rate("api-account", settings.API_PER_MINUTE, 60), str(principal.user.pk))
    return principal


def requires(scope: Scope | None, *, roles: frozenset[Role] = ANY_ROLE) -> list[Any]:
    """Return the `auth=` argument of an API operation.

    The operation accepts sessions, and tokens with `scope`. The person must have one of `roles`. `Scope.ADMIN` requires
    a platform administrator instead of a role. If `scope` is None, every signed-in person and every valid token is
    accepted.
    """
    return [BearerToken(scope, roles), BrowserSession(scope, roles)]
