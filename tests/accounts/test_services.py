"""People, organisations, invitations, tokens: what the services promise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from apps.accounts import services
from apps.accounts.access import Principal, principal_of_user
from apps.accounts.auth import principal_of_token
from apps.accounts.models import ApiToken, AuditEntry, Membership, Organisation, User
from apps.accounts.problems import Problem
from apps.accounts.roles import Role, Scope
from tests.cast import Cast

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def principal(user: User) -> Principal:
    return principal_of_user(user, None)


def test_signing_up_makes_a_person_an_organisation_and_its_owner(db: None) -> None:
    user = services.person_sign_up(
        email="Ada@Example.com ", name="Ada", password="long enough", organisation_name="Engines", now=NOW
    )
    membership = Membership.objects.get(user=user)
    assert (user.email, membership.organisation.slug, membership.role) == ("ada@example.com", "engines", Role.OWNER)
    assert AuditEntry.objects.get(organisation=membership.organisation).action == "organisation.create"


def test_an_address_signs_up_once_whatever_its_case(cast: Cast) -> None:
    with pytest.raises(Problem, match="Sign in instead"):
        services.user_create(email=cast.owner.email.upper(), name="Copy", password="long enough", now=NOW)


def test_two_organisations_of_one_name_get_two_slugs(cast: Cast) -> None:
    first = services.organisation_create(name="Twin", owner=cast.owner, now=NOW)
    second = services.organisation_create(name="Twin", owner=cast.stranger, now=NOW)
    assert first.slug == "twin"
    assert second.slug.startswith("twin-")


@pytest.mark.parametrize("leave", ["demote", "remove"])
def test_the_last_owner_stays(cast: Cast, leave: str) -> None:
    membership = Membership.objects.get(user=cast.owner)
    by = principal(cast.owner)
    demote = partial(services.membership_role_set, membership=membership, role=Role.VIEWER, principal=by, now=NOW)
    remove = partial(services.membership_remove, membership=membership, principal=by, now=NOW)
    with pytest.raises(Problem, match="Make somebody else an owner first"):
        {"demote": demote, "remove": remove}[leave]()
    assert Membership.objects.get(user=cast.owner).role == Role.OWNER


def test_an_invitation_makes_the_invited_person_a_member_once(cast: Cast) -> None:
    invitation, secret = services.invitation_create(
        organisation=cast.organisation,
        email=cast.stranger.email,
        role=Role.BILLING,
        principal=principal(cast.owner),
        now=NOW,
    )
    assert secret not in invitation.digest
    made = services.invitation_accept(invitation=invitation, user=cast.stranger, now=NOW + timedelta(days=1))
    assert (made.organisation, made.role) == (cast.organisation, Role.BILLING)
    with pytest.raises(Problem, match="Ask for a new invitation"):
        services.invitation_accept(invitation=invitation, user=cast.stranger, now=NOW + timedelta(days=1))


def test_an_invitation_is_for_one_address_and_seven_days(cast: Cast) -> None:
    invitation, _ = services.invitation_create(
        organisation=cast.organisation,
        email="new@example.com",
        role=Role.VIEWER,
        principal=principal(cast.owner),
        now=NOW,
    )
    with pytest.raises(Problem, match=r"for new@example\.com"):
        services.invitation_accept(invitation=invitation, user=cast.stranger, now=NOW)
    person = services.user_create(email="new@example.com", name="New", password="long enough", now=NOW)
    assert invitation.is_open(now=NOW + timedelta(days=7, microseconds=-1))
    with pytest.raises(Problem, match="has expired"):
        services.invitation_accept(invitation=invitation, user=person, now=NOW + timedelta(days=7))


def test_a_second_invitation_of_one_address_withdraws_the_first(cast: Cast) -> None:
    made = [
        services.invitation_create(
            organisation=cast.organisation,
            email="new@example.com",
            role=role,
            principal=principal(cast.owner),
            now=NOW,
        )[0]
        for role in (Role.VIEWER, Role.ENGINEER)
    ]
    made[0].refresh_from_db()
    assert [one.is_open(now=NOW) for one in made] == [False, True]


def token(cast: Cast, user: User, *scopes: Scope, expires_at: datetime | None = None) -> tuple[ApiToken, str]:
    return services.token_create(
        user=user, organisation=cast.organisation, name="build", scopes=scopes, now=NOW, expires_at=expires_at
    )


def test_a_tokens_secret_is_not_in_the_database(cast: Cast) -> None:
    row, secret = token(cast, cast.owner, Scope.READ)
    kept = {str(value) for value in ApiToken.objects.filter(pk=row.pk).values().get().values()}
    assert secret not in kept
    assert secret.startswith(row.prefix)
    found = principal_of_token(secret, now=NOW)
    assert found is not None
    assert (found.user, found.current, found.scopes) == (cast.owner, cast.organisation.pk, frozenset({Scope.READ}))


def test_a_token_may_not_do_more_than_its_maker(cast: Cast) -> None:
    with pytest.raises(Problem, match="Refused: build"):
        token(cast, cast.viewer, Scope.READ, Scope.BUILD)
    with pytest.raises(Problem, match="none chosen"):
        token(cast, cast.viewer)
    with pytest.raises(Problem, match="Refused: admin"):
        token(cast, cast.owner, Scope.ADMIN)


def test_a_token_ends_when_revoked_expired_or_its_maker_has_left(cast: Cast) -> None:
    soon = NOW + timedelta(days=30)
    row, secret = token(cast, cast.engineer, Scope.READ, expires_at=soon)
    assert principal_of_token(secret, now=soon - timedelta(microseconds=1))
    assert principal_of_token(secret, now=soon) is None

    services.token_revoke(token=row, principal=principal(cast.owner), now=NOW)
    assert principal_of_token(secret, now=NOW) is None

    _, other = token(cast, cast.engineer, Scope.READ)
    membership = Membership.objects.get(user=cast.engineer, organisation=cast.organisation)
    services.membership_remove(membership=membership, principal=principal(cast.owner), now=NOW)
    assert principal_of_token(other, now=NOW) is None


def test_a_changed_role_changes_what_its_token_reaches(cast: Cast) -> None:
    _, secret = token(cast, cast.engineer, Scope.BUILD)
    membership = Membership.objects.get(user=cast.engineer)
    services.membership_role_set(membership=membership, role=Role.VIEWER, principal=principal(cast.owner), now=NOW)
    found = principal_of_token(secret, now=NOW)
    assert found is not None
    assert found.memberships == {cast.organisation.pk: Role.VIEWER}


def test_every_change_leaves_a_line_in_the_log(cast: Cast) -> None:
    row, _ = token(cast, cast.owner, Scope.READ)
    services.token_revoke(token=row, principal=principal(cast.owner), now=NOW)
    services.token_revoke(token=row, principal=principal(cast.owner), now=NOW)
    lines = AuditEntry.objects.filter(organisation=cast.organisation).order_by("id").values_list("action", "subject")
    assert list(lines) == [("token.create", f"token {row.prefix}"), ("token.revoke", f"token {row.prefix}")]


def test_the_log_of_one_organisation_is_not_in_anothers(cast: Cast) -> None:
    token(cast, cast.owner, Scope.READ)
    assert not AuditEntry.objects.filter(organisation=cast.stranger_organisation).exists()
    assert Organisation.objects.count() == 2
