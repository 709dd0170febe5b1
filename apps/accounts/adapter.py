"""The django-allauth adapters for account mail, failed sign-ins and second factors."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.utils import build_absolute_uri
from cryptography.fernet import Fernet, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone

from apps.accounts import guards
from apps.accounts.mails import mail_queue
from apps.accounts.models import User
from apps.accounts.rates import client_address

NOWHERE = "0.0.0.0"  # noqa: S104 - how a missing client address is stored; nothing listens on it
# Mails that a stranger can cause by typing an address; notices of what has happened are always sent.
ASKED_FOR = frozenset(
    {
        "account/email/email_confirmation",
        "account/email/email_confirmation_signup",
        "account/email/account_already_exists",
        "account/email/password_reset_key",
    }
)


class Adapter(DefaultAccountAdapter):
    """The account adapter. Mail is plain text and goes through the outbox."""

    error_messages = DefaultAccountAdapter.error_messages | {
        "email_password_mismatch": "Wrong e-mail or password.",
        "enter_current_password": "This is not your current password.",
        "incorrect_password": "Wrong password.",
        "duplicate_email": "This is already your e-mail address.",
        "incorrect_code": "Wrong code.",
    }

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Write the message to the outbox unless the address has received too many messages of this kind."""
        if template_prefix in ASKED_FOR and not guards.mail_allowed(template_prefix, email):
            return
        words = {"email": email, "site": settings.SITE_URL} | context
        subject = " ".join(render_to_string(f"{template_prefix}_subject.txt", words).split())
        text = render_to_string(f"{template_prefix}_message.txt", words).strip() + "\n"
        mail_queue(to=email, subject=subject, text=text, now=timezone.now())

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return the client address to show in the list of sessions."""
        found = client_address(request)
        return NOWHERE if found == "unknown" else found

    def get_reset_password_from_key_url(self, key: str) -> str:
        """Return the password-reset link. `key` has the form "<user number>-<secret>"."""
        person, _, secret = key.partition("-")
        path = reverse("account_reset_password_from_key", kwargs={"uidb36": person, "key": secret})
        return str(build_absolute_uri(self.request, path))

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:
        return reverse("accounts:account")

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        guards.password_try(request, credentials["email"])

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        guards.password_wrong(request, credentials["email"])

    def _delete_login_attempts_cached_email(self, request: HttpRequest, **credentials: Any) -> None:
        guards.password_renewed(credentials["email"])

    def post_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse:
        response: HttpResponse = super().post_login(request, user, **kwargs)
        guards.browser_remember(request, response, pk=user.pk, email=user.email)
        return response


class FactorAdapter(DefaultMFAAdapter):
    """The second-factor adapter. Secrets are encrypted before they are stored."""

    error_messages = DefaultMFAAdapter.error_messages | {"incorrect_code": "Wrong code."}

    def _get_site_name(self) -> str:
        return "Takt"

    def encrypt(self, text: str) -> str:
        return _cipher().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return _cipher().decrypt(encrypted_text.encode()).decode()

    def get_public_key_credential_user_entity(self, user: User) -> dict[str, Any]:
        entity: dict[str, Any] = super().get_public_key_credential_user_entity(user)
        return entity | {"display_name": user.name or user.email}

    def generate_authenticator_name(self, user: User, type: Any) -> str:  # noqa: A002 - the library's name
        return "Passkey"


def _cipher() -> MultiFernet:
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    made = [HKDF(SHA256(), 32, b"takt", b"second factors").derive(str(key).encode()) for key in keys]
    return MultiFernet([Fernet(urlsafe_b64encode(one)) for one in made])
