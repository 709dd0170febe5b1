"""Queries about people, for the pages and the API."""

from __future__ import annotations

from allauth.mfa.models import Authenticator
from django.db.models import QuerySet

from apps.accounts.auth import token_digest
from apps.accounts.models import ApiToken, AuditEntry, Invitation, Membership, Organisation, User


def members_list(organisation: Organisation) -> QuerySet[Membership]:
    """Return the organisation's members, sorted by name."""
    return Membership.objects.filter(organisation=organisation).select_related("user").order_by("user__name", "id")


def invitations_open(organisation: Organisation) -> QuerySet[Invitation]:
    """Return the invitations that are neither used nor withdrawn, including expired ones, newest first."""
    rows = Invitation.objects.filter(organisation=organisation, accepted_at__isnull=True, revoked_at__isnull=True)
    return rows.order_by("-created_at")


def invitation_by_secret(secret: str) -> Invitation | None:
    """Return the invitation with this secret; None if there is none."""
    return Invitation.objects.select_related("organisation").filter(digest=token_digest(secret)).first()


def tokens_list(organisation: Organisation) -> QuerySet[ApiToken]:
    """Return all tokens of the organisation, including revoked ones, newest first."""
    return ApiToken.objects.filter(organisation=organisation).select_related("user").order_by("-created_at")


def audit_list(organisation: Organisation) -> QuerySet[AuditEntry]:
    """Return the organisation's audit log, newest entries first."""
    return AuditEntry.objects.filter(organisation=organisation).select_related("actor", "token").order_by("-id")


def factors_of(user: User) -> dict[str, int]:
    """Return how many second factors of each kind the person has."""
    kinds = Authenticator.objects.filter(user=user).values_list("type", flat=True)
    return {kind.value: sum(found == kind for found in kinds) for kind in Authenticator.Type}
