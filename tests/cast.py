"""The standing cast: the same people in every test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from allauth.account.models import EmailAddress
from django.conf import settings
from django.test import Client

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


def signed_in(user: User) -> Client:
    """A browser in which that person has signed in."""
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


class Browsers:
    """Browsers of the people of a cast that the tests of a file share: each person signs in once, and the middleware is made
    once. `browsers(cast.owner)` is a new browser in which that person is signed in, `browsers()` one in which nobody is."""

    def __init__(self, cast: Cast) -> None:
        self._handler = Client().handler
        self._keys: dict[Any, str] = {}
        for user in (*(cast.of_role(role) for role in Role), cast.stranger, cast.admin):
            self._keys[user.pk] = signed_in(user).cookies[settings.SESSION_COOKIE_NAME].value

    def __call__(self, user: User | None = None) -> Client:
        client = Client()
        client.handler = self._handler
        if user is not None:
            client.cookies[settings.SESSION_COOKIE_NAME] = self._keys[user.pk]
        return client
