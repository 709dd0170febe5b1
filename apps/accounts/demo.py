"""The people of the demo organisation. Their generated passwords are stored only in var/demo.json."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from apps.accounts import services
from apps.accounts.auth import principal_of_token
from apps.accounts.models import Membership, Organisation, User
from apps.accounts.roles import SCOPES_OF_ROLE, Role, Scope

ORGANISATION = "Demo Robotics"
# The owner signs in from the printed line, since only an owner may go the whole way from upload to invoice; the others
# have the same password.
TEAM = {Role.OWNER: "Olga Owner", Role.ENGINEER: "Emil Engineer", Role.BILLING: "Bella Billing"}
ADMIN = "Ada Administrator"
OWNER_SCOPES = sorted(SCOPES_OF_ROLE[Role.OWNER])


@dataclass(frozen=True)
class People:
    """The demo organisation, its owner, the administrator, and the entries of var/demo.json."""

    organisation: Organisation
    owner: User
    admin: User
    sign_in: dict[str, str]


def demo_people(*, known: dict[str, str], now: datetime) -> People:
    """Create the people who do not exist yet.

    `known` holds the previous contents of var/demo.json, whose valid passwords and tokens are kept.
    """
    password = known.get("password") or secrets.token_urlsafe(12)
    admin_password = known.get("admin_password") or secrets.token_urlsafe(12)
    team = {role: _person(name, password, now) for role, name in TEAM.items()}
    admin = _person(ADMIN, admin_password, now, is_platform_admin=True)
    owner = team[Role.OWNER]
    organisation = Organisation.objects.filter(memberships__user=owner, name=ORGANISATION).first()
    if organisation is None:
        organisation = services.organisation_create(name=ORGANISATION, owner=owner, now=now)
    for role, user in team.items():
        Membership.objects.get_or_create(organisation=organisation, user=user, defaults={"role": role})
    sign_in = {
        "email": owner.email,
        "password": password,
        "token": _token(known.get("token"), owner, organisation, OWNER_SCOPES, now),
        "engineer_email": team[Role.ENGINEER].email,
        "billing_email": team[Role.BILLING].email,
        "admin_email": admin.email,
        "admin_password": admin_password,
        "admin_token": _token(known.get("admin_token"), admin, None, (Scope.ADMIN,), now),
    }
    return People(organisation, owner, admin, sign_in)


def _person(name: str, password: str, now: datetime, *, is_platform_admin: bool = False) -> User:
    email = f"{name.split()[1].lower()}@demo.example"
    user = User.objects.filter(email=email).first()
    if user is None:
        return services.user_create(
            email=email,
            name=name,
            password=password,
            now=now,
            is_confirmed=True,
            is_platform_admin=is_platform_admin,
        )
    if not user.check_password(password):
        user.set_password(password)
        user.save(update_fields=["password"])
    return user


def _token(
    known: str | None, user: User, organisation: Organisation | None, scopes: Sequence[Scope], now: datetime
) -> str:
    found = principal_of_token(known, now=now) if known else None
    if known and found and found.user == user and found.current == (organisation.pk if organisation else None):
        return known
    _, secret = services.token_create(user=user, organisation=organisation, name="demo", scopes=scopes, now=now)
    return secret
