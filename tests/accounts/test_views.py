"""The people's pages as a browser sees them."""

from __future__ import annotations

from collections.abc import Callable

from django.test import Client
from django.utils import timezone

from apps.accounts.models import ApiToken, Invitation, Membership, User
from apps.accounts.roles import Role
from tests.accounts.mail import links_to, plain
from tests.cast import PASSWORD, Cast

AsUser = Callable[[User], Client]


def test_sign_in_leads_back_to_the_page_asked_for_but_never_off_the_site(cast: Cast) -> None:
    for wanted, reached in [("/settings/tokens", "/settings/tokens"), ("https://example.org/", "/")]:
        form = {"login": cast.owner.email, "password": PASSWORD, "next": wanted}
        assert Client().post("/sign-in", form)["Location"] == reached


def test_signing_out_needs_a_form_and_ends_the_session(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.owner)
    assert client.get("/sign-out").status_code == 405
    client.post("/sign-out")
    assert client.get("/settings/organisation").status_code == 302


def test_an_invited_person_signs_up_through_the_mailed_link(cast: Cast, as_user: AsUser) -> None:
    answer = as_user(cast.owner).post(
        "/settings/invitations", {"email": "new@example.com", "role": "engineer"}, follow=True
    )
    link = links_to("new@example.com")[0]
    assert link.encode() not in answer.content, "whoever invites could sign up in the invited person's name"
    client = Client()
    assert b"has invited you to join Acme Vision as an engineer." in client.get(link).content
    assert client.post(link, {"name": "New", "password": PASSWORD}).status_code == 302
    assert Membership.objects.get(user__email="new@example.com").role == Role.ENGINEER
    assert client.get("/settings/organisation").context["organisation"] == cast.organisation
    assert Client().get(link).status_code == 404


def test_inviting_answers_the_same_whether_the_address_has_an_account(cast: Cast, as_user: AsUser) -> None:
    pages = []
    for email in (cast.stranger.email, "nobody@example.com"):
        answer = as_user(cast.owner).post("/settings/invitations", {"email": email, "role": "viewer"}, follow=True)
        pages.append(plain(answer.content).replace(email, "EMAIL"))
        Invitation.objects.update(revoked_at=timezone.now())
    assert pages[0] == pages[1]


def test_a_new_tokens_secret_is_shown_once(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.engineer)
    response = client.post("/settings/tokens", {"name": "build", "scopes": ["read", "run"], "days": "30"})
    secret = response.context["secret"]
    assert secret.encode() in response.content
    assert secret.encode() not in client.get("/settings/tokens").content
    assert ApiToken.objects.get().scopes == ["read", "run"]


def test_the_form_offers_only_the_scopes_of_the_role(cast: Cast, as_user: AsUser) -> None:
    response = as_user(cast.viewer).post("/settings/tokens", {"name": "build", "scopes": ["buy"], "days": "30"})
    assert response.status_code == 422
    assert not ApiToken.objects.exists()


def test_an_owner_revokes_anybodys_token_and_a_member_only_their_own(cast: Cast, as_user: AsUser) -> None:
    as_user(cast.engineer).post("/settings/tokens", {"name": "build", "scopes": ["read"], "days": "0"})
    token = ApiToken.objects.get()
    assert as_user(cast.billing).post(f"/settings/tokens/{token.pk}/revoke").status_code == 403
    assert as_user(cast.owner).post(f"/settings/tokens/{token.pk}/revoke").status_code == 302
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_a_person_of_two_organisations_switches_between_them(cast: Cast, as_user: AsUser) -> None:
    Membership.objects.create(user=cast.owner, organisation=cast.stranger_organisation, role=Role.VIEWER)
    client = as_user(cast.owner)
    assert client.get("/settings/organisation").context["organisation"] == cast.organisation
    client.post(f"/organisations/{cast.stranger_organisation.pk}/switch")
    assert client.get("/settings/organisation").context["organisation"] == cast.stranger_organisation
    assert client.get("/settings/audit").status_code == 403


def test_a_refusal_under_a_page_is_a_page_with_its_sentence(cast: Cast, as_user: AsUser) -> None:
    membership = Membership.objects.get(user=cast.owner)
    response = as_user(cast.owner).post(f"/settings/members/{membership.pk}/remove")
    assert response.status_code == 409
    assert b"Make somebody else an owner first" in response.content


def test_every_page_forbids_foreign_scripts(cast: Cast) -> None:
    response = Client().get("/sign-in")
    assert "default-src 'self'" in response["Content-Security-Policy"]
    assert "unsafe" not in response["Content-Security-Policy"]
