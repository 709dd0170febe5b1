"""JSON API for the caller's identity, the organisation's members and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest
from ninja import Router, Schema

from apps.accounts import selectors
from apps.accounts.access import organisation_get, principal_get
from apps.accounts.auth import requires
from apps.accounts.models import AuditEntry, Membership, Organisation
from apps.accounts.paging import Cursor, paginate
from apps.accounts.roles import OWNING, Role, Scope

router = Router(tags=["accounts"])


class OrganisationOut(Schema):
    id: UUID
    name: str
    slug: str
    time_zone: str


class MeOut(Schema):
    email: str
    name: str
    is_platform_admin: bool
    organisation: OrganisationOut | None
    role: Role | None
    scopes: list[Scope] | None
    token: UUID | None  # null for a browser's session


class MemberOut(Schema):
    id: UUID
    name: str
    email: str
    role: Role
    created_at: datetime

    @staticmethod
    def resolve_name(row: Membership) -> str:
        return row.user.name

    @staticmethod
    def resolve_email(row: Membership) -> str:
        return row.user.email


class AuditOut(Schema):
    id: int
    at: datetime
    actor: str | None
    token: str | None
    action: str
    subject: str
    detail: dict[str, Any]

    @staticmethod
    def resolve_actor(row: AuditEntry) -> str | None:
        return row.actor.email if row.actor else None

    @staticmethod
    def resolve_token(row: AuditEntry) -> str | None:
        return row.token.prefix if row.token else None


@router.get(
    "/me",
    response=MeOut,
    auth=requires(None),
    operation_id="me",
    summary="Get the person and organisation that a token belongs to",
)
def me(request: HttpRequest) -> dict[str, Any]:
    """Return the person and the organisation of the token or session."""
    principal = principal_get(request)
    organisation = Organisation.objects.filter(pk=principal.current).first() if principal.current else None
    return {
        "email": principal.user.email,
        "name": principal.user.name,
        "is_platform_admin": principal.is_platform_admin,
        "organisation": organisation,
        "role": principal.memberships.get(principal.current) if principal.current else None,
        "scopes": sorted(principal.scopes) if principal.scopes is not None else None,
        "token": principal.token.pk if principal.token else None,
    }


@router.get("/members", response=list[MemberOut], operation_id="members", summary="Members")
@paginate(Cursor, ordering=("created_at", "id"))
def members(request: HttpRequest) -> QuerySet[Membership]:
    """List the organisation's members in the order in which they joined."""
    return selectors.members_list(organisation_get(request))


@router.get(
    "/audit",
    response=list[AuditOut],
    auth=requires(Scope.READ, roles=OWNING),
    operation_id="audit",
    summary="Audit log",
)
@paginate(Cursor, ordering=("-id",))
def audit(request: HttpRequest) -> QuerySet[AuditEntry]:
    """List the audit log, newest entries first. Only owners may read the log."""
    return selectors.audit_list(organisation_get(request, roles=OWNING))
