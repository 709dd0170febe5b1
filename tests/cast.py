"""The standing cast: the same people in every test."""

from __future__ import annotations

from dataclasses import dataclass

from allauth.account.models import EmailAddress

from apps.accounts.models import Membership, Organisation, User
from apps.accounts.roles import Role

PASSWORD = "correct horse battery staple"


@dataclass(frozen=True)
class Cast:
    """One organisation with a person in each role, a stranger with an organisation of their own, an administrator."""

    organisation: Organisation
    owner: User
    engineer: User
    billing: User
    viewer: User
    stranger: User
    stranger_organisation: Organisation
    admin: User

    def of_role(self, role: Role) -> User:
        """The member of `organisation` with that role."""
        member: User = getattr(self, role.value)
        return member


def person(name: str, *, admin: bool = False) -> User:
    """A user `<name>@example.com` with the cast's password."""
    user = User(email=f"{name.lower()}@example.com", name=name, is_platform_admin=admin)
    user.set_password(PASSWORD)
    user.save()
    EmailAddress.objects.create(user=user, email=user.email, primary=True, verified=True)
    return user


def assemble() -> Cast:
    """Make the cast in the database."""
    organisation = Organisation.objects.create(name="Acme Vision", slug="acme-vision")
    other = Organisation.objects.create(name="Other Works", slug="other-works")
    members = {role.value: person(role.label) for role in Role}
    for role in Role:
        Membership.objects.create(user=members[role.value], organisation=organisation, role=role)
    stranger = person("Stranger")
    Membership.objects.create(user=stranger, organisation=other, role=Role.OWNER)
    admin = person("Admin", admin=True)
    return Cast(organisation=organisation, stranger=stranger, stranger_organisation=other, admin=admin, **members)
