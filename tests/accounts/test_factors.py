"""Second factors: the authenticator app, recovery codes, and whose they are."""

from __future__ import annotations

from base64 import b32decode
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client

from apps.accounts import guards
from apps.accounts.models import AuditEntry
from tests.accounts.mail import links_to, sent
from tests.accounts.test_people import is_in, sign_in, sure
from tests.cast import PASSWORD, Cast
from tests.totp import code_of

Committed = Callable[..., AbstractContextManager[object]]


@pytest.fixture
def committed(django_capture_on_commit_callbacks: Committed) -> Committed:
    return django_capture_on_commit_callbacks


def with_app(cast: Cast) -> tuple[Client, str]:
    client = sure(cast.owner.email)
    secret = client.get("/settings/two-factor/app").context["form"].secret
    client.post("/settings/two-factor/app", {"code": code_of(secret, -1)})
    return client, secret


def test_the_qr_code_has_its_white_ground_from_the_style_sheet(cast: Cast) -> None:
    page = sure(cast.owner.email).get("/settings/two-factor/app").content.decode()
    assert 'class="qr"' in page
    assert "css/pages.css" in page


def test_the_password_alone_is_not_enough_once_an_app_is_added(cast: Cast, committed: Committed) -> None:
    with committed(execute=True):  # the notice and the entry in the log follow the commit
        _, secret = with_app(cast)
    client = sign_in(cast.owner.email)
    assert not is_in(client)
    assert b"Wrong code" in client.post("/sign-in/code", {"code": "000000"}).content
    client.post("/sign-in/code", {"code": code_of(secret)})
    assert is_in(client)
    assert "An authenticator app was added" in [message.subject for message in sent()]
    assert AuditEntry.objects.filter(action="factor.add", detail__kind="authenticator app").exists()


def test_the_secret_is_not_readable_in_the_database(cast: Cast) -> None:
    _, secret = with_app(cast)
    stored = str(Authenticator.objects.get(type=Authenticator.Type.TOTP).data)
    assert secret not in stored
    assert b32decode(secret).hex() not in stored


def test_a_recovery_code_signs_in_once(cast: Cast) -> None:
    client, _ = with_app(cast)
    code = client.get("/settings/two-factor/recovery").context["unused_codes"][0]
    for works in (True, False):
        other = sign_in(cast.owner.email)
        other.post("/sign-in/code", {"code": code})
        assert is_in(other) is works


def test_codes_cannot_be_guessed_without_end(cast: Cast) -> None:
    with_app(cast)
    client = sign_in(cast.owner.email)
    answers = [
        client.post("/sign-in/code", {"code": f"{number:06}"}).status_code for number in range(guards.CODES.amount)
    ]
    assert set(answers) == {200}
    answer = client.post("/sign-in/code", {"code": "999999"})
    assert (answer.status_code, bool(answer["Retry-After"])) == (429, True)


def test_removing_the_app_is_recorded_and_told(cast: Cast) -> None:
    client, _ = with_app(cast)
    client.post("/settings/two-factor/app/remove")
    assert not Authenticator.objects.exists()
    assert is_in(sign_in(cast.owner.email))
    assert sent()[-1].subject == "An authenticator app was removed"
    assert AuditEntry.objects.filter(action="factor.remove").exists()


@pytest.mark.parametrize("method", ["get", "post"])
def test_nobody_removes_the_passkey_of_somebody_else(cast: Cast, method: str) -> None:
    passkey = Authenticator.objects.create(user=cast.owner, type=Authenticator.Type.WEBAUTHN, data={"name": "Passkey"})
    stranger = sure(cast.stranger.email)
    assert getattr(stranger, method)(f"/settings/passkeys/{passkey.pk}/remove").status_code == 404
    assert Authenticator.objects.filter(pk=passkey.pk).exists()


def test_a_password_reset_does_not_go_round_the_second_factor(cast: Cast) -> None:
    with_app(cast)

    client = Client()
    client.post("/password/reset", {"email": cast.owner.email})
    form = client.get(links_to(cast.owner.email)[0])["Location"]
    client.post(form, {"password1": PASSWORD + "2", "password2": PASSWORD + "2"})
    assert not is_in(client)
