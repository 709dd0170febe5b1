"""Changes to people, organisations, invitations, tokens and the audit log. Each change is one transaction."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.db import IntegrityError, transaction
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.text import slugify

from apps.accounts.access import Principal
from apps.accounts.auth import token_digest
from apps.accounts.guards import mail_allowed
from apps.accounts.mails import mail_queue
from apps.accounts.models import ApiToken, AuditEntry, Invitation, Membership, Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.roles import SCOPES_OF_ROLE, Role, Scope

INVITATION_LASTS = timedelta(days=7)
TOKEN_START = "takt_"  # noqa: S105 - what a secret scanner recognises, not a secret
PREFIX_LENGTH = 12


def audit_record(
    *,
    action: str,
    now: datetime,
    principal: Principal | None = None,
    actor: User | None = None,
    organisation: Organisation | None = None,
    subject: str = "",
    detail: dict[str, Any] | None = None,
) -> AuditEntry:
    """Add an entry to the audit log. The caller must use the transaction of the recorded change.

    `action` is "noun.verb"; `subject` names the object. The default organisation is the principal's current
    organisation.
    """
    organisation_id = organisation.pk if organisation else (principal.current if principal else None)
    return AuditEntry.objects.create(
        at=now,
        organisation_id=organisation_id,
        actor=actor or (principal.user if principal else None),
        token=principal.token if principal else None,
        action=action,
        subject=subject,
        detail=detail or {},
    )


@transaction.atomic
def user_create(
    *, email: str, name: str, password: str, now: datetime, is_confirmed: bool = False, is_platform_admin: bool = False
) -> User:
    """Create a person. Raises Problem(409) if the address is in use.

    The caller must have checked the password. `is_confirmed` means that the address is known to belong to the person.
    """
    user = User(email=email.strip().lower(), name=name.strip(), is_platform_admin=is_platform_admin, created_at=now)
    user.set_password(password)
    try:
        with transaction.atomic():
            user.save(force_insert=True)
    except IntegrityError:
        raise Problem(
            409, "Address in use", "An account with this address already exists. Sign in instead.", kind="address-taken"
        ) from None
    EmailAddress.objects.create(user=user, email=user.email, primary=True, verified=is_confirmed)
    return user


@transaction.atomic
def organisation_create(*, name: str, owner: User, now: datetime) -> Organisation:
    """Create an organisation with its first owner. A random suffix is added if the slug is in use."""
    base = slugify(name)[:50] or "organisation"
    taken = set(Organisation.objects.filter(slug__startswith=base).values_list("slug", flat=True))
    slug = base if base not in taken else f"{base}-{secrets.token_hex(3)}"
    organisation = Organisation.objects.create(name=name.strip(), slug=slug, created_at=now)
    Membership.objects.create(organisation=organisation, user=owner, role=Role.OWNER, created_at=now)
    audit_record(action="organisation.create", now=now, actor=owner, organisation=organisation, subject=name)
    return organisation


@transaction.atomic
def organisation_sample_mark(*, organisation: Organisation, until: datetime) -> datetime:
    """Mark all data dated before `until` as sample data, and return the stored instant.

    The first mark is final: later calls return the first instant.
    """
    locked = Organisation.objects.select_for_update(no_key=True).get(pk=organisation.pk)
    if locked.sample_until is None:
        locked.sample_until = until
        locked.save(update_fields=["sample_until"])
    stored: datetime = locked.sample_until
    return stored


@transaction.atomic
def person_sign_up(*, email: str, name: str, password: str, organisation_name: str, now: datetime) -> User:
    """Create a person and a new organisation that the person owns."""
    user = user_create(email=email, name=name, password=password, now=now)
    organisation_create(name=organisation_name, owner=user, now=now)
    return user


@transaction.atomic
def organisation_update(
    *, organisation: Organisation, name: str, time_zone: str, principal: Principal, now: datetime
) -> None:
    """Change the organisation's name and time zone. Past sales are not affected."""
    before = {"name": organisation.name, "time_zone": organisation.time_zone}
    organisation.name, organisation.time_zone = name.strip(), time_zone
    organisation.save(update_fields=["name", "time_zone"])
    audit_record(action="organisation.update", now=now, principal=principal, organisation=organisation, detail=before)


@transaction.atomic
def membership_role_set(*, membership: Membership, role: Role, principal: Principal, now: datetime) -> None:
    """Change a member's role. Raises Problem if the last owner would lose the role."""
    _owners_lock(membership.organisation)
    if role != Role.OWNER:
        _last_owner_check(membership)
    before = membership.role
    membership.role = role
    membership.save(update_fields=["role"])
    _membership_audit("membership.role", membership, principal, now, {"before": before, "after": str(role)})


@transaction.atomic
def membership_remove(*, membership: Membership, principal: Principal, now: datetime) -> None:
    """Remove a member, and revoke the member's tokens for this organisation."""
    _owners_lock(membership.organisation)
    _last_owner_check(membership)
    _membership_audit("membership.remove", membership, principal, now, {"role": membership.role})
    membership.delete()


@transaction.atomic
def membership_leave(*, organisation: Organisation, user: User, now: datetime) -> None:
    """Leave an organisation. Raises Problem if the person is the last owner."""
    _owners_lock(organisation)
    membership = Membership.objects.select_related("user").get(organisation=organisation, user=user)
    _last_owner_check(membership)
    audit_record(action="membership.leave", now=now, actor=user, organisation=organisation, subject=user.email)
    membership.delete()


@transaction.atomic
def person_delete(*, user: User, now: datetime) -> None:
    """Delete an account and its personal data. Raises Problem(409) if the person is the last owner of an organisation.

    "Deleted person" replaces the name in records that must be kept.
    """
    for membership in Membership.objects.filter(user=user).select_related("organisation").order_by("organisation_id"):
        membership_leave(organisation=membership.organisation, user=user, now=now)
    ApiToken.objects.filter(user=user, revoked_at__isnull=True).update(revoked_at=now)
    EmailAddress.objects.filter(user=user).delete()
    Authenticator.objects.filter(user=user).delete()
    SocialAccount.objects.filter(user=user).delete()
    UserSession.objects.filter(user=user).delete()
    user.email, user.name, user.is_active, user.is_platform_admin = (
        f"{user.pk}@deleted.invalid",
        "Deleted person",
        False,
        False,
    )
    user.set_unusable_password()
    user.save(update_fields=["email", "name", "is_active", "is_platform_admin", "password"])
    audit_record(action="person.delete", now=now, actor=user)


@transaction.atomic
def person_rename(*, user: User, name: str) -> None:
    """Change a person's name."""
    user.name = name.strip()
    user.save(update_fields=["name"])


@transaction.atomic
def session_end(*, session: UserSession, principal: Principal, now: datetime) -> None:
    """End a session."""
    detail = {"address": session.ip}
    session.end()
    audit_record(action="session.end", now=now, principal=principal, subject=principal.user.email, detail=detail)


def sessions_ended_record(*, principal: Principal, now: datetime) -> None:
    """Record in the audit log that a person has ended all other sessions."""
    audit_record(action="session.end-others", now=now, principal=principal, subject=principal.user.email)


def email_is_confirmed(user: User) -> bool:
    """Return whether the person has confirmed the e-mail address of the account."""
    return bool(EmailAddress.objects.filter(user=user, email=user.email, verified=True).exists())


def _owners_lock(organisation: Organisation) -> None:
    # Without this lock, two owners could demote each other at the same time.
    Organisation.objects.select_for_update().get(pk=organisation.pk)


def _last_owner_check(membership: Membership) -> None:
    owners = Membership.objects.filter(organisation=membership.organisation, role=Role.OWNER)
    if not owners.exclude(pk=membership.pk).exists():
        raise Problem(
            409, "Last owner", "An organisation needs an owner. Make somebody else an owner first.", kind="last-owner"
        )


def _membership_audit(action: str, of: Membership, by: Principal, now: datetime, detail: dict[str, Any]) -> None:
    audit_record(
        action=action, now=now, principal=by, organisation=of.organisation, subject=of.user.email, detail=detail
    )


@transaction.atomic
def invitation_create(
    *, organisation: Organisation, email: str, role: Role, principal: Principal, now: datetime
) -> tuple[Invitation, str]:
    """Create an invitation, mail its link, and return the invitation and its secret.

    The secret must be sent only by mail, because opening the link proves ownership of the address.
    """
    email = email.strip().lower()
    if Membership.objects.filter(organisation=organisation, user__email=email).exists():
        raise Problem(
            409,
            "Already a member",
            f"{email} is a member already: change the role in the list instead.",
            kind="already-a-member",
        )
    Invitation.objects.filter(
        organisation=organisation, email=email, accepted_at__isnull=True, revoked_at__isnull=True
    ).update(revoked_at=now)
    secret = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        organisation=organisation,
        email=email,
        role=role,
        digest=token_digest(secret),
        invited_by=principal.user,
        created_at=now,
        expires_at=now + INVITATION_LASTS,
    )
    audit_record(
        action="invitation.create",
        now=now,
        principal=principal,
        organisation=organisation,
        subject=email,
        detail={"role": str(role)},
    )
    if mail_allowed("invitation", email):
        words = {
            "invitation": invitation,
            "link": f"{settings.SITE_URL}{reverse('accounts:invitation', args=[secret])}",
        }
        mail_queue(
            to=email,
            subject=f"Join {organisation.name} on Takt",
            text=render_to_string("accounts/invitation_mail.txt", words),
            now=now,
        )
    return invitation, secret


@transaction.atomic
def invitation_accept(*, invitation: Invitation, user: User, now: datetime) -> Membership:
    """Make the invited person a member.

    Raises Problem if the invitation is no longer valid or was sent to another address.
    """
    invitation = Invitation.objects.select_for_update().select_related("organisation").get(pk=invitation.pk)
    if user.email != invitation.email:
        detail = f"This invitation is for {invitation.email}; you are signed in as {user.email}."
        raise Problem(403, "For somebody else", detail, kind="invitation-for-another")
    if not invitation.is_open(now=now):
        raise Problem(
            409,
            "No longer valid",
            "This invitation was used or withdrawn, or it has expired. Ask for a new invitation.",
            kind="invitation-invalid",
        )
    membership, _ = Membership.objects.get_or_create(
        organisation=invitation.organisation, user=user, defaults={"role": invitation.role, "created_at": now}
    )
    invitation.accepted_at = now
    invitation.save(update_fields=["accepted_at"])
    audit_record(
        action="invitation.accept", now=now, actor=user, organisation=invitation.organisation, subject=user.email
    )
    return membership


@transaction.atomic
def invitation_revoke(*, invitation: Invitation, principal: Principal, now: datetime) -> None:
    """Withdraw an invitation. Does nothing if the invitation is used or withdrawn."""
    changed = Invitation.objects.filter(pk=invitation.pk, accepted_at__isnull=True, revoked_at__isnull=True)
    if changed.update(revoked_at=now):
        audit_record(
            action="invitation.revoke",
            now=now,
            principal=principal,
            organisation=invitation.organisation,
            subject=invitation.email,
        )


@transaction.atomic
def token_create(
    *,
    user: User,
    organisation: Organisation | None,
    name: str,
    scopes: Iterable[Scope],
    now: datetime,
    expires_at: datetime | None = None,
) -> tuple[ApiToken, str]:
    """Create a token and return it with its secret, which is never stored.

    Raises Problem(403) if the person may not use one of the scopes. Without an organisation, only the scope `admin` is
    possible.
    """
    wanted = frozenset(scopes)
    refused = wanted - _scopes_of(user, organisation)
    if refused or not wanted:
        names = ", ".join(sorted(scope.value for scope in refused)) or "none chosen"
        raise Problem(
            403,
            "Scopes that you cannot grant",
            f"Choose scopes that your own role has. Refused: {names}.",
            kind="scope-not-yours",
        )
    secret = f"{TOKEN_START}{secrets.token_urlsafe(32)}"
    token = ApiToken.objects.create(
        organisation=organisation,
        user=user,
        name=name.strip(),
        prefix=secret[:PREFIX_LENGTH],
        digest=token_digest(secret),
        scopes=sorted(scope.value for scope in wanted),
        created_at=now,
        expires_at=expires_at,
    )
    audit_record(
        action="token.create",
        now=now,
        actor=user,
        organisation=organisation,
        subject=f"token {token.prefix}",
        detail={"scopes": token.scopes},
    )
    return token, secret


def _scopes_of(user: User, organisation: Organisation | None) -> frozenset[Scope]:
    if organisation is None:
        return frozenset({Scope.ADMIN}) if user.is_platform_admin else frozenset()
    membership = Membership.objects.filter(user=user, organisation=organisation).first()
    return SCOPES_OF_ROLE[Role(membership.role)] if membership else frozenset()


@transaction.atomic
def token_revoke(*, token: ApiToken, principal: Principal, now: datetime) -> None:
    """Revoke a token with immediate effect. Can be repeated."""
    if ApiToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=now):
        audit_record(
            action="token.revoke",
            now=now,
            principal=principal,
            organisation=token.organisation,
            subject=f"token {token.prefix}",
        )
