"""Guessing is held off, and nobody can use that to keep somebody else out."""

from __future__ import annotations

import pytest
from django.contrib.auth.hashers import make_password
from django.test import Client
from pytest_django import Settings as SettingsWrapper

from apps.accounts import guards
from tests.accounts.mail import links_to
from tests.cast import PASSWORD, Cast


def attempt(email: str, password: str, client: Client | None = None, address: str = "192.0.2.1", **headers: str) -> int:
    client = client or Client()
    return client.post(
        "/sign-in", {"login": email, "password": password}, REMOTE_ADDR=address, headers=headers
    ).status_code


def test_five_wrong_passwords_from_one_place_wait_even_for_the_right_one(cast: Cast) -> None:
    for number in range(5):
        assert attempt(cast.owner.email.upper() if number % 2 else cast.owner.email, "wrong") == 200
    client = Client(REMOTE_ADDR="192.0.2.1")
    answer = client.post("/sign-in", {"login": cast.owner.email, "password": PASSWORD})
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= guards.WRONG_PAIR.seconds
    assert attempt(cast.owner.email, PASSWORD, address="192.0.2.2") == 302, "the owner is not locked out elsewhere"


def test_an_unknown_address_waits_like_a_known_one(cast: Cast) -> None:
    statuses = [[attempt(email, "wrong") for _ in range(7)] for email in (cast.owner.email, "nobody@example.com")]
    assert statuses[0] == statuses[1] == [200] * 5 + [429] * 2


def test_no_number_of_wrong_passwords_keeps_the_owner_out_of_a_known_browser(cast: Cast) -> None:
    known = Client()
    assert attempt(cast.owner.email, PASSWORD, known) == 302
    known.post("/sign-out")
    for place in range(25):
        for _ in range(5):
            attempt(cast.owner.email, "wrong", address=f"198.51.100.{place}")
    assert attempt(cast.owner.email, PASSWORD, address="203.0.113.5") == 429, "a botnet is held off everywhere else"
    assert attempt(cast.owner.email, PASSWORD, known, address="198.51.100.1") == 302


def test_a_known_browser_does_not_guess_without_end(cast: Cast) -> None:
    known = Client()
    attempt(cast.owner.email, PASSWORD, known)
    known.post("/sign-out")
    assert [attempt(cast.owner.email, "wrong", known) for _ in range(6)] == [200] * 5 + [429]


def test_a_browser_known_for_one_account_is_not_known_for_another(cast: Cast) -> None:
    known = Client()
    attempt(cast.stranger.email, PASSWORD, known)
    known.post("/sign-out")
    for place in range(20):
        for _ in range(5):
            attempt(cast.owner.email, "wrong", address=f"198.51.100.{place}")
    assert attempt(cast.owner.email, PASSWORD, known) == 429


@pytest.mark.parametrize("value", ["nonsense", "eyJpZCI6IngiLCJhY2NvdW50cyI6W119:1:forged", ""])
def test_a_forged_cookie_is_no_known_browser(cast: Cast, value: str) -> None:
    client = Client()
    client.cookies[guards.COOKIE] = value
    assert [attempt(cast.owner.email, "wrong", client) for _ in range(6)] == [200] * 5 + [429]


def test_a_new_password_by_mail_lets_the_owner_in_anywhere(cast: Cast) -> None:
    for place in range(20):
        for _ in range(5):
            attempt(cast.owner.email, "wrong", address=f"198.51.100.{place}")
    client = Client(REMOTE_ADDR="203.0.113.5")
    client.post("/password/reset", {"email": cast.owner.email})
    form = client.get(links_to(cast.owner.email)[0])["Location"]
    client.post(form, {"password1": "another correct horse", "password2": "another correct horse"})
    assert client.get("/settings/account").status_code == 200
    assert attempt(cast.owner.email, "another correct horse", address="203.0.113.6") == 302


def test_behind_a_proxy_one_clients_guesses_hold_off_that_client_alone(cast: Cast, settings: SettingsWrapper) -> None:
    settings.TRUSTED_PROXIES = 1
    for _ in range(6):
        last = attempt(cast.owner.email, "wrong", address="10.0.0.1", **{"x-forwarded-for": "6.6.6.6, 198.51.100.7"})
    assert last == 429
    headers = {"x-forwarded-for": "198.51.100.7, 203.0.113.5"}
    assert attempt(cast.owner.email, PASSWORD, address="10.0.0.1", **headers) == 302


def test_sign_ups_from_one_place_are_limited(db: None) -> None:
    statuses = []
    for number in range(guards.SIGN_UP.amount + 1):
        form = {"name": "A", "email": f"a{number}@example.com", "password1": PASSWORD, "organisation_name": "O"}
        statuses.append(Client().post("/sign-up", form))
    assert [answer.status_code for answer in statuses[:-1]] == [302] * guards.SIGN_UP.amount
    assert statuses[-1].status_code == 429
    assert int(statuses[-1]["Retry-After"]) > 0


def test_one_address_tries_few_passwords_in_a_minute(cast: Cast) -> None:
    """Each try costs processor time, so that guesses at many accounts must not come all at once."""
    statuses = [attempt(f"user{number}@example.com", "wrong") for number in range(guards.WRONG_BURST.amount + 1)]
    assert statuses == [200] * guards.WRONG_BURST.amount + [429]
    assert attempt(cast.owner.email, PASSWORD, address="192.0.2.2") == 302


def test_a_password_of_an_earlier_release_is_hashed_anew_at_sign_in(cast: Cast, settings: SettingsWrapper) -> None:
    settings.PASSWORD_HASHERS = ["apps.accounts.hashers.Argon2id", "django.contrib.auth.hashers.PBKDF2PasswordHasher"]
    cast.owner.password = make_password(PASSWORD, hasher="pbkdf2_sha256")
    cast.owner.save(update_fields=["password"])
    assert attempt(cast.owner.email, PASSWORD) == 302
    cast.owner.refresh_from_db()
    assert cast.owner.password.startswith("argon2$argon2id$")
    assert attempt(cast.owner.email, PASSWORD) == 302
