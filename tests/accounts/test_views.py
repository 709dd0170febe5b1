"""The people's pages as a browser sees them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from apps.accounts.models import ApiToken, Membership, User
from apps.accounts.roles import Role
from tests.cast import PASSWORD, Cast

AsUser = Callable[[User], Client]


def test_somebody_signs_up_and_is_signed_in(db: None) -> None:
    client = Client()
    form = {"name": "Ada", "email": "ADA@example.com", "password": PASSWORD, "organisation_name": "Engines"}
    assert client.post("/sign-up", form).status_code == 302
    assert client.get("/settings/organisation").context["organisation"].name == "Engines"


@pytest.mark.parametrize("password", ["short", "password123", "ada@example.com"])
def test_a_weak_password_is_refused_with_the_reason(db: None, password: str) -> None:
    form = {"name": "Ada", "email": "ada@example.com", "password": password, "organisation_name": "Engines"}
    response = Client().post("/sign-up", form)
    assert response.status_code == 422
    assert response.context["form"].errors["password"]
    assert not User.objects.exists()


def test_five_wrong_passwords_lock_the_address_even_for_the_right_one(cast: Cast) -> None:
    client = Client()
    for attempt in range(5):
        spelled = cast.owner.email.upper() if attempt % 2 else cast.owner.email
        client.post("/sign-in", {"username": spelled, "password": "wrong"})
    response = client.post("/sign-in", {"username": cast.owner.email, "password": PASSWORD})
    assert response.status_code == 429
    assert b"quarter of an hour" in response.content


def test_sign_in_leads_back_to_the_page_asked_for_but_never_off_the_site(cast: Cast) -> None:
    for wanted, reached in [("/settings/tokens", "/settings/tokens"), ("https://example.org/", "/")]:
        form = {"username": cast.owner.email, "password": PASSWORD, "next": wanted}
        assert Client().post("/sign-in", form)["Location"] == reached


def test_signing_out_needs_a_form_and_ends_the_session(cast: Cast, as_user: AsUser) -> None:
    client = as_user(cast.owner)
    assert client.get("/sign-out").status_code == 405
    client.post("/sign-out")
    assert client.get("/settings/organisation").status_code == 302


def test_an_invited_person_signs_up_through_the_link(cast: Cast, as_user: AsUser) -> None:
    response = as_user(cast.owner).post("/settings/invitations", {"email": "new@example.com", "role": "engineer"})
    link = response.context["link"]
    client = Client()
    assert b"Acme Vision" in client.get(link).content
    assert client.post(link, {"name": "New", "password": PASSWORD}).status_code == 302
    assert Membership.objects.get(user__email="new@example.com").role == Role.ENGINEER
    assert Client().get(link).status_code == 404


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
    assert b"make somebody else owner first" in response.content


def test_every_page_forbids_foreign_scripts(cast: Cast) -> None:
    response = Client().get("/sign-in")
    assert "default-src 'self'" in response["Content-Security-Policy"]
    assert "unsafe" not in response["Content-Security-Policy"]
