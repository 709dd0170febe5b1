"""URLs of the django-allauth pages that Takt uses.

The URL names are those of django-allauth, which looks its pages up by name.
"""

from __future__ import annotations

from allauth.account import views as account
from allauth.mfa.base import views as mfa
from allauth.mfa.recovery_codes import views as recovery
from allauth.mfa.totp import views as totp
from allauth.mfa.webauthn import views as webauthn
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest
from django.urls import URLPattern, URLResolver, include, path

from apps.accounts import guards
from apps.accounts.guards import person_key
from apps.accounts.pages import ConfirmEmail, EmailSent, Sessions, person_signing_in, shown
from apps.accounts.rates import limited


def _mine(request: HttpRequest) -> str:
    return person_key(request, request.user.pk)


def _signing_in(request: HttpRequest) -> str:
    person = person_signing_in(request)
    return person_key(request, person.pk if person else None)


codes = limited(guards.CODES, key=_mine)
passwords = limited(guards.PASSWORDS, key=_mine)

urlpatterns: list[URLPattern | URLResolver] = [
    path("sign-in", limited(guards.SIGN_IN)(shown(account.LoginView, "sign_in")), name="account_login"),
    path("sign-up", limited(guards.SIGN_UP)(shown(account.SignupView, "sign_up")), name="account_signup"),
    path("sign-in/closed", shown(account.AccountInactiveView, "closed"), name="account_inactive"),
    path(
        "sign-in/code",
        limited(guards.CODES, key=_signing_in)(shown(mfa.AuthenticateView, "code")),
        name="mfa_authenticate",
    ),
    path(
        "sign-in/passkey",
        login_not_required(limited(guards.PASSKEYS, methods=("GET", "POST"))(webauthn.login_webauthn)),
        name="mfa_login_webauthn",
    ),
    path("confirm-email", limited(guards.RESET)(EmailSent.as_view()), name="account_email_verification_sent"),
    path("confirm-email/<str:key>", ConfirmEmail.as_view(), name="account_confirm_email"),
    path(
        "password/reset",
        limited(guards.RESET)(shown(account.PasswordResetView, "password_forgotten")),
        name="account_reset_password",
    ),
    path(
        "password/reset/sent",
        shown(account.PasswordResetDoneView, "password_sent"),
        name="account_reset_password_done",
    ),
    path(
        "password/reset/done",
        shown(account.PasswordResetFromKeyDoneView, "password_done"),
        name="account_reset_password_from_key_done",
    ),
    path(
        "password/reset/<str:uidb36>/<str:key>",
        limited(guards.RESET)(shown(account.PasswordResetFromKeyView, "password_new")),
        name="account_reset_password_from_key",
    ),
    path(
        "settings/password",
        passwords(shown(account.PasswordChangeView, "password")),
        name="account_change_password",
    ),
    path(
        "settings/password/first",
        passwords(shown(account.PasswordSetView, "password_first")),
        name="account_set_password",
    ),
    path(
        "settings/email",
        limited(guards.MAIL_CHANGE, key=_mine)(shown(account.EmailView, "email")),
        name="account_email",
    ),
    path("settings/confirm", passwords(shown(account.ReauthenticateView, "again")), name="account_reauthenticate"),
    path("settings/confirm/code", codes(shown(mfa.ReauthenticateView, "again_code")), name="mfa_reauthenticate"),
    path(
        "settings/confirm/passkey",
        codes(shown(webauthn.ReauthenticateWebAuthnView, "again_passkey")),
        name="mfa_reauthenticate_webauthn",
    ),
    path("settings/two-factor", shown(mfa.IndexView, "factors"), name="mfa_index"),
    path("settings/two-factor/app", codes(shown(totp.ActivateTOTPView, "app_new")), name="mfa_activate_totp"),
    path(
        "settings/two-factor/app/remove",
        shown(totp.DeactivateTOTPView, "app_remove"),
        name="mfa_deactivate_totp",
    ),
    path(
        "settings/two-factor/recovery",
        shown(recovery.ViewRecoveryCodesView, "recovery"),
        name="mfa_view_recovery_codes",
    ),
    path(
        "settings/two-factor/recovery/new",
        shown(recovery.GenerateRecoveryCodesView, "recovery_new"),
        name="mfa_generate_recovery_codes",
    ),
    path("settings/passkeys", shown(webauthn.ListWebAuthnView, "passkeys"), name="mfa_list_webauthn"),
    path("settings/passkeys/new", codes(shown(webauthn.AddWebAuthnView, "passkey_new")), name="mfa_add_webauthn"),
    path(
        "settings/passkeys/<int:pk>/remove",
        shown(webauthn.RemoveWebAuthnView, "passkey_remove"),
        name="mfa_remove_webauthn",
    ),
    path("settings/sessions", Sessions.as_view(), name="usersessions_list"),
]

if settings.OIDC_SERVER != "none":
    urlpatterns.append(path("", include("apps.accounts.provider_urls")))
