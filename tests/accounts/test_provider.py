"""Sign-in through an OpenID Connect provider that speaks the protocol over HTTP."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from pytest_django import Settings as SettingsWrapper

from apps.accounts.models import User
from apps.accounts.services import email_is_confirmed
from tests.accounts.test_people import is_in
from tests.cast import Cast

ID = "takt at the company"


class Provider(ThreadingHTTPServer):
    """Discovery, token and userinfo of one person; the challenge of PKCE is checked as a provider does."""

    person: dict[str, Any]
    challenge = ""
    seen: list[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_GET(self) -> None:
        self.server.seen.append(self.path)
        if self.path.startswith("/.well-known/"):
            url = self.server.url
            return self._answer(
                {
                    "issuer": url,
                    "authorization_endpoint": f"{url}/authorize",
                    "token_endpoint": f"{url}/token",
                    "userinfo_endpoint": f"{url}/userinfo",
                    "jwks_uri": f"{url}/keys",
                    "token_endpoint_auth_methods_supported": ["client_secret_post"],
                }
            )
        if self.headers.get("Authorization") != "Bearer of the person":
            return self.send_error(401)
        return self._answer(self.server.person)

    def do_POST(self) -> None:
        given = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        digest = hashlib.sha256(given["code_verifier"][0].encode()).digest()
        proof = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if proof != self.server.challenge or given["client_secret"] != ["a secret"]:
            return self.send_error(400)
        return self._answer({"access_token": "of the person", "token_type": "bearer"})

    def _answer(self, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def provider(db: None, settings: SettingsWrapper) -> Iterator[Provider]:
    server = Provider(("127.0.0.1", 0), Handler)
    server.seen = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    settings.ROOT_URLCONF = "tests.accounts.provider_urlconf"
    settings.OIDC_SERVER, settings.OIDC_NAME = server.url, "Acme"
    settings.SOCIALACCOUNT_PROVIDERS = {
        "openid_connect": {
            "OAUTH_PKCE_ENABLED": True,
            "APPS": [
                {
                    "provider_id": "company",
                    "name": "Acme",
                    "client_id": ID,
                    "secret": "a secret",
                    "settings": {"server_url": server.url},
                }
            ],
        }
    }
    yield server
    server.shutdown()
    server.server_close()


def sign_in(server: Provider) -> Client:
    """Press the button, sign in there, come back."""
    client = Client()
    assert b"Sign in with Acme" in client.get("/sign-in").content
    there = urlsplit(client.post("/sign-in/with/company")["Location"])
    asked = parse_qs(there.query)
    assert (there.path, asked["client_id"], asked["code_challenge_method"]) == ("/authorize", [ID], ["S256"])
    server.challenge = asked["code_challenge"][0]
    client.get("/sign-in/with/company/back", {"code": "the code", "state": asked["state"][0]})
    return client


def test_a_person_whom_the_provider_vouches_for_is_signed_up_and_in(provider: Provider) -> None:
    provider.person = {"sub": "7", "email": "Ada@example.com", "email_verified": True, "name": "Ada Acme"}
    client = sign_in(provider)
    assert is_in(client)
    user = User.objects.get(email="ada@example.com")
    assert (user.name, user.has_usable_password(), email_is_confirmed(user)) == ("Ada Acme", False, True)
    assert is_in(sign_in(provider))
    assert User.objects.count() == 1


def test_an_account_with_the_verified_address_is_the_same_person(provider: Provider, cast: Cast) -> None:
    provider.person = {"sub": "8", "email": cast.owner.email, "email_verified": True, "name": "Other name"}
    assert sign_in(provider).get("/settings/account").context["user"] == cast.owner
    assert SocialAccount.objects.get().user == cast.owner


def test_an_address_that_the_provider_does_not_vouch_for_opens_no_account(provider: Provider, cast: Cast) -> None:
    provider.person = {"sub": "9", "email": cast.owner.email, "email_verified": False, "name": "Mallory"}
    assert not is_in(sign_in(provider))
    assert not SocialAccount.objects.filter(user=cast.owner).exists()


def test_without_a_provider_nothing_of_it_is_mounted(db: None) -> None:
    assert Client().post("/sign-in/with/company").status_code == 404
    assert b"Sign in with" not in Client().get("/sign-in").content.replace(b"Sign in with a passkey", b"")
